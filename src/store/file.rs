//! Mutexes in the files of a directory.
//!
//! Scope: this host. Clock: the kernel's locks tell which holders live, the wall clock tells when a term is over. A crash
//! frees the leases at once; claims stay until they expire.
//!
//! Each mutex has up to three kinds of files:
//!
//! - The *record* is text: the name, the lease, the last token, the claims. Each decision is one critical section under a
//!   short lock of the record. A look takes that lock, too, so that it waits for a create and never refuses it. If another
//!   name excludes an admission, the records of both are locked.
//! - The holder keeps a *life* file locked for as long as it has the lease in hand. A lease is held while its term lasts
//!   and its life file is locked, or until the end that it was released to. If a lease expires or is broken while its
//!   holder still lives, the next holder locks another life file, a new generation.
//! - A record of more than 64 claims has an *index*, which says where each claim stands, so that a decision costs the same
//!   whatever their number. The record says all that the index says. If a claim was granted without the index, the
//!   index is made anew.
//!
//! A schedule that keeps a log of its runs has a *runs* file for each event. Its lock is its own: no gate waits for it.
//!
//! A command that works under a lease inherits a duplicate of the life file's descriptor, its lifeline. They share one
//! lock: it stays until the last of them is closed, whichever process was killed before, and ends at once when the holder
//! unlocks it to give the lease back. When the command has begun, its process group is noted in the record. From the first
//! lifeline on the record says that the term does not count, because nobody renews it when the holder has gone: the lease
//! is held while its life file is locked. If that file was deleted, nobody can tell who lives, and the term counts again.
//!
//! The write of the state makes a grant true. The claim beside it is written first; a claim whose token is higher than that
//! of the last grant was never granted. A torn block was never granted either, and is written anew. Blocks are written in
//! place; no record is truncated, and nothing is unlinked, because a lock of an unlinked file excludes nobody. Nothing is
//! synced to the disk: a power loss takes the holders with it, and may take back the claims of the last seconds before it.
//!
//! Whoever can open a record or a life file can lock it, and whoever can write to the directory can plant files there
//! that root or another user opens. So all files are opened beside one descriptor of the directory, never through a
//! link; `directory/access.rs` says who may own them. The directory's mode is looked at whenever a file is opened, and not
//! at a gate whose files are kept open.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::event_mutex::{EventMutex, run_log::RunLog};
use crate::base::error::MutexError;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{name::MutexName, term::Term};
use crate::observe::run_record::RunRecord;
use crate::observe::run_record::numbered_record::{NumberedRecord, by_event, newest_first};
use crate::observe::run_record::skip_count::SkipCount;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::batch::{Batch, LeaseReturn};
use crate::store::event_mutex::description::{Description, Scope};
use crate::store::event_mutex::held::{Held, Names};
#[cfg(unix)]
use crate::store::event_mutex::lifeline::Lifeline;
#[cfg(unix)]
use crate::store::event_mutex::warning::StoreWarning;
use crate::store::event_mutex::{admit_in_steps, slot::answer_each};
use crate::store::{event_mutex::broken_lease::Broken, event_mutex::slot::Slot};
use crate::time::clock::Clock;

pub(crate) mod builder;
#[cfg_attr(not(unix), path = "file/directory_not_unix.rs")]
mod directory;
mod error;
mod file_pool;
pub(crate) mod filesystem;
#[cfg(unix)]
mod health;
mod life_file;
mod open_file;
mod paths;
mod record;
pub(crate) mod sharing;

use builder::FileMutexBuilder;
use directory::Directory;
use error::FileError;
use file_pool::{FilePool, LeaseFiles, MutexFiles};
use life_file::LifeLock;
use paths::{files_of, record_in, runs_in};
use record::RecordFile;
use record::locked_record::{Decided, LockedRecord};
use record::runs_file::RunsFile;

/// What errors call the log of runs.
const LOG: &str = "the log of runs";

/// Mutexes between the processes of one host, in a directory. It can do all that an [`EventMutex`] can.
///
/// A killed process frees its leases at once, whatever their term. A lease whose [`lifeline`](EventMutex::lifeline) a
/// command has is free when the command has ended, and all processes that inherited the lifeline from it; no sooner and no
/// later, whatever the term.
///
/// [`held`](EventMutex::held) lists leases by prefix. It leaves out files that the store refuses (see below), and records
/// that do not say their name: those of which not even the beginning was written, and those under another file's name.
///
/// `cat DIR/*.record` shows who holds what, since when and until when. The record of a process that was killed stays as it
/// was. Ignore it once its pid has gone, with one exception: where the line `life` says `beyond until`, the lease lasts
/// until its command has ended, too. The line `group` names the command's process group, and `fuser DIR/*.life` finds
/// processes that left the group. The [holder](EventMutex::held) and the report say so as well, and
/// [`break_lease`](EventMutex::break_lease) answers [`FreedWhileRunning`](crate::Broken::FreedWhileRunning).
///
/// The files are small and stay: one record and one life file for each name that was ever asked for, an index for each name
/// that ever had more than 64 claims at once, and for each event with a [log of runs](crate::Schedule::with_run_log) a file that
/// ends in `.runs`, which may be deleted at any time. Do not delete or replace the others while a process uses the directory:
/// the holder of a deleted file no longer excludes anybody, and gets an error when a lease that is older than a second is
/// extended or given back.
///
/// On Unix the files can be opened by their owner alone, or also by the group of a directory that services of several
/// users share: see [`Sharing`](crate::Sharing). Files with wider modes are narrowed when their owner opens them.
/// [`check`](EventMutex::check) narrows all files of this user, and warns of those of others. The store refuses the following,
/// with an error that names the path and says what to do:
///
/// - a record or a log that does not begin with its format, as in `soloist-mutex v1`;
/// - a directory that all users can write to, such as `/tmp` itself, also one whose mode is changed later;
/// - a directory of another user than root, unless its group shares it, or this process is root's;
/// - a symbolic link, a file with several hard links, or anything else that is not a regular file, as a file of the
///   store;
/// - a file of another user than root, unless its group shares it, or this process is root's and the owner of the file
///   owns the directory, too.
///
/// Files that root makes in the directory of another user belong to that user, so that root can pause their schedule.
/// Whoever can write to the directory, or to one above it, can still remove it or its files.
///
/// A cheap handle: clones see the same leases in hand. These end with the last handle, as they do with the process. Up to
/// 64 mutexes keep their two files open between leases. Claims only expire. They are not synced to the disk, so a power
/// loss may take back those of the last seconds.
///
/// Terms are measured on the wall clock, because only that is the same for all processes. If it is set
///
/// - **back**, released leases stay free, and the leases of a dead process are free at once. Claims and the rest of
///   [`hold_at_least`](crate::Event::hold_at_least) last longer by that much. If a live holder refuses a gate, the
///   report says that its `since` lies in the future, and [the process fails](crate::SkipReason::is_failure).
/// - **forward** by more than what is left of a term, a lease ends early, unless it has a lifeline.
///
/// ```
/// use std::time::Duration;
/// use soloist::{Clock, EventMutex, FileMutex, LeaseRequest, MutexName, Owner, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let mutex = FileMutex::in_dir(dir)?;
/// let name = MutexName::lease("reports")?;
/// let request = LeaseRequest::new(name.clone(), Term::new(Duration::from_secs(60))?, &Clock::system());
/// let lease = mutex.create(&request)?.expect("nobody holds it");
/// assert!(FileMutex::in_dir(dir)?.exists(&name)?);
/// mutex.forget(&lease)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FileMutex {
    shared: Arc<Shared>,
}

struct Shared {
    dir: PathBuf,
    directory: Mutex<Arc<Directory>>,
    clock: Clock,
    files: Mutex<FilePool>,
}

impl FileMutex {
    /// The mutexes in the directory `path`, which is made if it is not there, with mode 0700. A relative path is resolved
    /// against the current directory now.
    ///
    /// # Errors
    ///
    /// - The directory can't be made or opened.
    /// - It lies on a network filesystem, see [`NetworkFilesystem`](crate::NetworkFilesystem).
    /// - On Unix, other users could plant or replace files: all users can write to it; or it belongs to another user than
    ///   this process's or root, and its group does not share it, see [`Sharing`](crate::Sharing); or its path is a
    ///   symbolic link that another user made. Root may use every user's directory.
    ///
    /// ```
    /// use soloist::FileMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path();
    /// let mutex = FileMutex::in_dir(dir.join("locks"))?;
    /// assert!(dir.join("locks").is_dir());
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_dir(path: impl Into<PathBuf>) -> Result<Self, MutexError> {
        Self::builder(path).open()
    }

    /// The same with options.
    pub fn builder(path: impl Into<PathBuf>) -> FileMutexBuilder {
        FileMutexBuilder::new(path.into())
    }

    /// The directory, as an absolute path.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// The directory that others meet now who open its path, for the files of a mutex.
    fn directory_for(&self, name: &MutexName) -> Result<Arc<Directory>, FileError> {
        self.directory().map_err(FileError::of_directory(record_in(self.dir(), name)))
    }

    fn directory(&self) -> io::Result<Arc<Directory>> {
        // It is replaced as a whole.
        let mut directory = self.shared.directory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(renewed) = directory.renewed()? {
            *directory = Arc::new(renewed);
        }
        Ok(Arc::clone(&directory))
    }

    fn files(&self) -> MutexGuard<'_, FilePool> {
        // No code that can panic runs while they are half-changed, so poisoned ones are whole.
        self.shared.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files of a mutex, from those that lie ready if nobody has deleted or moved them.
    fn files_of(&self, name: &MutexName, pid: u32) -> Result<Box<MutexFiles>, FileError> {
        let now = self.shared.clock.moment();
        let idle = self.files().idle(name, pid);
        if let Some(mut files) = idle
            && files.record.is_in_place(now)
        {
            return Ok(files);
        }
        MutexFiles::open_or_make(self.directory_for(name)?, name, pid, now)
    }

    /// Decides on one admission, whose parts are of one mutex, in one critical section.
    fn admit_at_once(&self, admission: &Admission, request: &LeaseRequest) -> Result<Admitted, FileError> {
        let (name, owner) = (request.name(), request.owner());
        let mut files = self.files_of(name, owner.pid())?;
        let Decided { answer, life, superseded } = self.decide_on_record(&mut files, admission, name)?;
        let mut pool = self.files();
        if let Some(superseded) = superseded {
            pool.let_go(superseded, name);
        }
        match life {
            Some(life) => pool.hold(owner, name, LeaseFiles { files, life }),
            None => pool.put_back(name, files),
        }
        Ok(answer)
    }

    /// Decides on an admission to the mutex of `name`. The records of the names that exclude it stay locked meanwhile.
    ///
    /// They are looked for under the lock of the first one. Whoever makes one later, and is excluded by what is granted here,
    /// waits for that lock. Records are locked in the order of their names, so that no two processes wait for each other.
    fn decide_on_record(
        &self,
        files: &mut MutexFiles,
        admission: &Admission,
        name: &MutexName,
    ) -> Result<Decided, FileError> {
        let (clock, MutexFiles { record, spare, .. }) = (&self.shared.clock, files);
        let mut locked = record.lock(clock)?;
        let is_other = |excluding: &&MutexName| excluding.mutex() != name.mutex();
        let mut excluding: Vec<&MutexName> = admission.excluded_by().iter().filter(is_other).collect();
        excluding.sort_unstable_by_key(|excluding| excluding.mutex());
        excluding.dedup_by_key(|excluding| excluding.mutex());
        let mut others = Vec::new();
        for excluding in excluding {
            let other = RecordFile::open(locked.directory(), excluding, clock.moment())?;
            others.extend(other.map(|other| (excluding.mutex(), other)));
        }
        let ours = others.partition_point(|(mutex, _)| *mutex < name.mutex());
        let (before, after) = others.split_at_mut(ours);
        let mut locked_others = Vec::new();
        if !before.is_empty() {
            drop(locked);
            for (mutex, other) in before {
                locked_others.push((*mutex, other.lock(clock)?));
            }
            locked = record.lock(clock)?;
        }
        for (mutex, other) in after {
            locked_others.push((*mutex, other.lock(clock)?));
        }
        for excluding in admission.excluded_by() {
            let held = match locked_others.iter_mut().find(|(mutex, _)| *mutex == excluding.mutex()) {
                Some((_, other)) => other.held_by(excluding)?,
                None if excluding.mutex() == name.mutex() => locked.held_by(excluding)?,
                None => None,
            };
            if held.is_some() {
                return locked.admit(admission, held, spare);
            }
        }
        locked.admit(admission, None, spare)
    }

    fn decide_on(&self, admission: &Admission) -> Result<Admitted, MutexError> {
        let (lease, claim) = (admission.lease(), admission.claim());
        let in_one_record = match (lease.map(LeaseRequest::name), claim.map(LeaseRequest::name)) {
            (Some(lease), Some(claim)) => !lease.is_claim() && claim.is_claim() && lease.mutex() == claim.mutex(),
            (Some(lease), None) => !lease.is_claim(),
            (None, Some(claim)) => claim.is_claim(),
            (None, None) => false,
        };
        match lease.or(claim) {
            Some(request) if in_one_record => {
                self.admit_at_once(admission, request).map_err(|error| error.while_trying_to("create", request.name()))
            }
            _ => admit_in_steps(self, admission),
        }
    }

    /// Does `action` on the locked record of `name`. Returns `absent` if there is none.
    fn on_record<T>(
        &self,
        name: &MutexName,
        absent: T,
        action: impl FnOnce(LockedRecord<'_>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        match RecordFile::open(self.directory_for(name)?, name, self.shared.clock.moment())? {
            None => Ok(absent),
            Some(mut record) => action(record.lock(&self.shared.clock)?),
        }
    }

    /// Reads which of these names are held: those of one mutex in a row as of one moment.
    fn held_of(&self, names: &[MutexName]) -> Result<Vec<Held>, MutexError> {
        let mut held = Vec::new();
        for names in names.chunk_by(|one, next| one.mutex() == next.mutex()) {
            let read = |mut record: LockedRecord<'_>| {
                names.iter().filter_map(|name| record.held_by(name).transpose()).collect::<Result<Vec<Held>, _>>()
            };
            let found = self.on_record(&names[0], Vec::new(), read);
            held.extend(found.map_err(|error| error.while_trying_to("look at", &names[0]))?);
        }
        Ok(held)
    }

    /// Which of these leases are held, of all records in the directory.
    fn list(&self, names: Names<'_>) -> Result<Vec<Held>, FileError> {
        let clock = &self.shared.clock;
        let of_directory = || FileError::of_directory(self.dir().to_owned());
        let directory = self.directory().map_err(of_directory())?;
        let mut held = Vec::new();
        for path in files_of(self.dir(), |kind| kind == "record").map_err(of_directory())? {
            if let Some((name, mut record)) = RecordFile::with_its_name(&directory, &path, clock.moment())?
                && names.contain(&name)
            {
                held.extend(record.lock(clock)?.held_by(&name)?);
            }
        }
        Ok(held)
    }

    /// Ends a lease, as `end` does it on the record. One that is in hand needs no file opened; whatever is answered, its
    /// life file is unlocked.
    fn end(
        &self,
        lease: &Lease,
        end: impl FnOnce(&mut LockedRecord<'_>, Option<&LifeLock>) -> Result<bool, FileError>,
    ) -> Result<bool, FileError> {
        let in_hand = self.files().let_go(lease.owner(), lease.name());
        let Some(LeaseFiles { mut files, mut life }) = in_hand else {
            return self.on_record(lease.name(), false, |mut record| end(&mut record, None));
        };
        let ours = files.record.expect_not_deleted(self.shared.clock.moment()).and_then(|()| {
            let mut record = files.record.lock(&self.shared.clock)?;
            let ours = end(&mut record, Some(&life));
            // While the record is locked, or the next holder would have to start a new generation.
            files.spare = life.end();
            ours
        });
        life.end();
        self.files().put_back(lease.name(), files);
        ours
    }

    fn give_back(&self, lease: &Lease, rest: Option<Term>) -> Result<bool, MutexError> {
        let verb = if rest.is_some() { "release" } else { "forget" };
        let released = self.end(lease, |record, life| record.release(lease, rest, life));
        released.map_err(|error| error.while_trying_to(verb, lease.name()))
    }

    fn extend_one(&self, lease: &Lease, term: Term) -> Result<bool, FileError> {
        let ours = self.on_record(lease.name(), false, |mut record| record.extend(lease, term))?;
        if !ours {
            self.files().let_go(lease.owner(), lease.name());
        }
        Ok(ours)
    }
}

#[cfg(unix)]
impl FileMutex {
    /// Binds a lease that is in hand, and still its owner's, to its life file, and lends a duplicate of that.
    fn lend(&self, lease: &Lease) -> Result<Lifeline, FileError> {
        let (owner, name) = (lease.owner(), lease.name());
        let unusable = |why: &str| FileError::unusable(&record_in(self.dir(), name), why);
        let lent = self.files().lend(owner, name)?;
        let duplicate = lent.ok_or_else(|| unusable("it is not in hand here"))?;
        if !self.on_record(name, false, |mut record| record.bind_to_life(lease))? {
            self.files().let_go(owner, name);
            return Err(unusable("it is not its owner's any more"));
        }
        let (store, lease) = (self.clone(), lease.clone());
        Ok(Lifeline::of(duplicate).telling(move |process_group| {
            // Should it fail, the record tells people less, and the next renewal says what is wrong.
            let note = |mut record: LockedRecord<'_>| record.note_process_group(&lease, process_group);
            let _ = store.on_record(lease.name(), false, note);
        }))
    }
}

impl FileMutexBuilder {
    /// Opens the directory, and makes it if it is not there.
    ///
    /// # Errors
    ///
    /// As [`FileMutex::in_dir`] has them; also a directory that is to be [shared](Self::shared_with), and whose owner,
    /// another user, has not opened it to the group.
    pub fn open(self) -> Result<FileMutex, MutexError> {
        let (dir, directory, clock) = self.parts()?;
        let directory = Mutex::new(Arc::new(directory));
        Ok(FileMutex { shared: Arc::new(Shared { dir, directory, clock, files: Mutex::default() }) })
    }
}

impl EventMutex for FileMutex {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        match self.decide_on(&Admission::of(request.clone()))? {
            Admitted::Granted(grant) => Ok(Some(request.granted(grant.token()))),
            _ => Ok(None),
        }
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        Ok(!self.held_of(slice::from_ref(name))?.is_empty())
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.give_back(lease, None)
    }

    fn describe(&self) -> Description {
        Description::of(&*self.shared).with_scope(Scope::Host).with_extension()
    }

    fn clock(&self) -> Clock {
        self.shared.clock.clone()
    }

    fn carry_out(&self, batch: &mut Batch) {
        let (releases, _) = batch.slots_mut();
        let mut outage = None;
        answer_each(releases, &mut outage, LeaseReturn::attempted, |asked| self.give_back(asked.lease(), asked.rest()));
        batch.admit_each(&mut outage, |admission| self.decide_on(admission));
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        for slot in leases {
            let ours = self.extend_one(slot.asked(), term);
            slot.fill(ours.map_err(|error| error.while_trying_to("extend", slot.asked().name())));
        }
    }

    /// A claim has none: it ends with its term.
    #[cfg(unix)]
    fn lifeline(&self, lease: &Lease) -> Result<Option<Lifeline>, MutexError> {
        if lease.name().is_claim() {
            return Ok(None);
        }
        self.lend(lease).map(Some).map_err(|error| error.while_trying_to("hand on", lease.name()))
    }

    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        match names {
            Names::Exactly(name) => self.held_of(slice::from_ref(name)),
            Names::Each(names) => self.held_of(names),
            Names::LeasesWithPrefix(_) => self.list(names).map_err(|error| error.while_trying_to("list", "leases")),
        }
    }

    fn break_lease(&self, name: &MutexName) -> Result<Broken, MutexError> {
        self.on_record(name, Broken::NotHeld, |mut record| record.break_open(name))
            .map_err(|error| error.while_trying_to("break", name))
    }

    fn run_log(&self) -> Option<&dyn RunLog> {
        Some(self)
    }

    /// On Unix; nothing is to be warned of elsewhere. It opens every file in the directory.
    #[cfg(unix)]
    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        let check = || health::warnings(&*self.directory()?);
        check().map_err(|error| error::of_directory(format!("check the directory {}", self.dir().display()), error))
    }
}

impl FileMutex {
    /// Changes the log of an event.
    fn on_log(
        &self,
        event: &str,
        change: impl FnOnce(&RunsFile<'_>) -> Result<(), FileError>,
    ) -> Result<(), MutexError> {
        let write = || {
            let (path, of_directory) = (runs_in(self.dir(), event), FileError::of_directory);
            let directory = self.directory().map_err(of_directory(path.clone()))?;
            let file = directory.file_or_make(&path).map_err(FileError::at(&path))?;
            change(&RunsFile::lock(event, &file)?)
        };
        write().map_err(|error: FileError| error.while_trying_to("write", LOG))
    }

    fn read_log(&self, event: &str) -> Result<(Vec<NumberedRecord>, Vec<SkipCount>), MutexError> {
        let read = || {
            let path = runs_in(self.dir(), event);
            let directory = self.directory().map_err(FileError::of_directory(path.clone()))?;
            match directory.file(&path).map_err(FileError::at(&path))? {
                None => Ok(Default::default()),
                Some(file) => RunsFile::lock(event, &file)?.read(),
            }
        };
        read().map_err(|error: FileError| error.while_trying_to("read", LOG))
    }
}

impl RunLog for FileMutex {
    fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError> {
        let mut events = by_event(records).into_iter();
        events.try_for_each(|(event, new)| self.on_log(event, |log| log.write(&new, keep)))
    }

    fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError> {
        self.read_log(event).map(|(runs, _)| newest_first(runs))
    }

    fn count_skips(&self, event: &str, skips: &[SkipCount]) -> Result<(), MutexError> {
        self.on_log(event, |log| log.count_skips(skips))
    }

    fn skips(&self, event: &str) -> Result<Vec<SkipCount>, MutexError> {
        self.read_log(event).map(|(_, skips)| skips)
    }
}

impl fmt::Debug for FileMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_hand = self.files().held_names();
        f.debug_struct("FileMutex").field("dir", &self.shared.dir).field("in_hand", &in_hand).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::escape::Chain;

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error_that_names_it() {
        let error = FileMutex::in_dir("/dev/null/locks").unwrap_err();
        assert_eq!(
            Chain(&error).to_string(),
            "could not open the directory /dev/null/locks: Not a directory (os error 20)"
        );
        assert!(FileMutex::in_dir("").is_err());
    }

    #[test]
    fn a_relative_path_is_made_absolute_once() {
        assert_eq!(FileMutex::in_dir(".").unwrap().dir(), std::env::current_dir().unwrap());
    }
}
