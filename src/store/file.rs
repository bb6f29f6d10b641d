//! A store in the files of a directory, for the processes of one host.
//!
//! The kernel's file locks show which holders live, and the wall clock shows when a term is over. A crash frees the
//! leases at once; claims stay until they expire.
//!
//! Each mutex has three files:
//!
//! - `X.lock` is locked with `flock` during a decision, and is never replaced. A read takes the lock, too, so that a
//!   read and a decision do not disturb each other. If a name excludes an admission, the mutex of that name gets a
//!   shared lock. Several mutexes are locked in the order of their names, so that no two processes wait for each other
//!   for ever.
//! - `X.state` is text: the last token, and a line for the lease, each claim and each marker. A grant writes the whole
//!   text. A text of up to 4 KiB is written in place with one write. A longer text is written to a new file, and the
//!   new file then replaces the old file by a rename. So even if the process is killed, an admission is granted as a
//!   whole or not at all. Later changes overwrite the head of a line in place, which needs no room on the disk. A
//!   renewal writes the new deadline; a release writes that the lease has ended.
//! - `X.life` is locked while the holder of the lease lives, and a release unlocks it. If a lease ends while its holder
//!   still lives, the next holder locks `X.life-1`, and so on.
//!
//! A lease is held in one of three cases:
//!
//! - its life file is locked, and its term is not over;
//! - its life file is locked, and a command has inherited the life file;
//! - a minimum hold is not over.
//!
//! If a schedule keeps a log of its runs, each event has a file `X.runs`. The log has a separate lock file, so that no
//! admission waits for the log.
//!
//! A command that runs under a lease inherits a duplicate of the life file's descriptor: the lifeline. All duplicates
//! share one lock. The lock ends when the last duplicate is closed, or at once when the holder unlocks the file to
//! release the lease. After the first lifeline was made, the lease does not end with its term: if the holder is killed,
//! nothing renews the lease, but the command may still run. If the life file was deleted, the lease ends with its term
//! again.
//!
//! Nothing is synced to the disk. A power loss ends the holders, and may lose the claims of the last seconds. A power
//! loss can also damage a state, or a line of a state. A damaged text counts as empty. But while a life file of the
//! mutex is locked, a damaged text is an error.
//!
//! A process that can open a file can lock the file. A user who can write to the directory can plant files that root or
//! another user opens. So all files are opened relative to one descriptor of the directory, and never through a link.
//! `directory/access.rs` says which users may own the files.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::event_mutex::{EventMutex, attempted_extension, create_by_admission, run_log::RunLog};
use crate::base::error::{MutexError, ask_store};
use crate::base::lock::lock;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{name::MutexName, owner::Owner, term::Term};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::batch::{Batch, Slot, answer_each, attempted_release, fill_each};
use crate::store::event_mutex::description::{Description, Scope};
use crate::store::event_mutex::held::{Held, Names};
#[cfg(unix)]
use crate::store::event_mutex::lifeline::Lifeline;
#[cfg(unix)]
use crate::store::event_mutex::warning::StoreWarning;
use crate::time::clock::{Clock, moment::Moment, wall_plus};

pub(crate) mod builder;
#[cfg_attr(not(unix), path = "file/directory_not_unix.rs")]
mod directory;
mod error;
pub(crate) mod network_filesystem;
#[cfg(unix)]
mod health;
mod life_file;
mod opened_mutex;
mod open_file;
mod paths;
mod runs_file;

use builder::FileMutexBuilder;
use directory::Directory;
use error::FileError;
use life_file::LifeLock;
use network_filesystem::NetworkFilesystem;
use opened_mutex::OpenedMutex;
use opened_mutex::mutex_lock::{LockKind, MutexLock, lock_deadline};
use opened_mutex::state::{Lasts, StateEntry};
use paths::{LOCK, MutexPaths, STATE, files_of, state_in};

/// The error for a path with which processes that have different working directories, such as those of cron and of a
/// shell, would use different directories.
const NOT_ABSOLUTE: &str = "its path is not absolute: write the whole path, such as /var/lib/myapp/locks";

/// A store in a directory, for the processes of one host. It supports all methods of [`EventMutex`].
///
/// If a process is killed, its leases are free at once, before their terms are over. But a command can inherit the
/// [`lifeline`](EventMutex::lifeline) of a lease. Such a lease is free only when all processes that have the lifeline
/// have ended, even if the term is over earlier.
///
/// [`held`](EventMutex::held) lists leases by prefix. The list leaves out files that the store refuses (see below), and
/// state files that were copied to another name.
///
/// `cat DIR/*.state` shows a line for each lease, claim and marker, with its holder, start and deadline. The word after
/// the deadline says how long the name is held:
///
/// | word | the name is held |
/// | --- | --- |
/// | `alive` | until the deadline, but only while its process lives |
/// | `bound` | while its process or its command runs, also after the deadline |
/// | `fixed` | until the deadline: a claim, a marker, or a lease under [`hold_at_least`](crate::Event::hold_at_least) |
/// | `ended` | no longer |
///
/// A process that is killed can't change its lines. So ignore a line with `alive` if its process does not exist any
/// more. If a command runs under a lease, its process group is the number after `group`; `fuser DIR/*.life` also finds
/// processes that left the group. The [holder](EventMutex::held), the report and the answer of
/// [`break_lease`](EventMutex::break_lease) have the process group, too.
///
/// The files are small, and stay in the directory. Each lease that was ever requested has three files, and each claim or
/// marker two. Each name that ever excluded an admission has a lock file. Each event with a [log of
/// runs](crate::Schedule::with_run_log) has a file that ends in `.runs`, which you can delete at any time. Do not delete
/// or replace the other files while a process uses the directory. A deleted file no longer excludes other processes, and
/// the holder learns this only when it extends or releases the lease.
///
/// A user who can open a file of the store can lock the file, and so block its event. So on Unix, only the owner of a
/// file can open the file. If services of several users share the directory, its group can open the files, too. The
/// mode of the directory decides this:
///
/// | the directory | its files | |
/// | --- | --- | --- |
/// | all users can write to it | | refused |
/// | setgid, and its group can read, write and enter it (2770, 2775; `chmod g+rwxs`) | 0660, of the directory's group | shared: all members of the group can block and end its leases |
/// | setgid and shared in this way, but also sticky (3770) | | refused |
/// | its group can write to it (0770, 0775) | 0600 | [`check`](EventMutex::check) warns: the group can remove files |
/// | any other | 0600 | |
///
/// If the store makes the directory, it gets mode 0700. If a file has a wider mode than in this table, the mode is
/// narrowed when the owner of the file opens it. [`check`](EventMutex::check) opens all files, and warns of files with a
/// wider mode that belong to other users. The store refuses the following, with an error that names the path and says
/// what to do:
///
/// - a state or a log whose first line does not name its format, such as `soloist-state v1`;
/// - a directory that all users can write to, such as `/tmp` itself. The store checks the mode at each call;
/// - a directory of a user other than this user and root, unless the group of the directory shares it, or this process
///   runs as root;
/// - a file of the store that is a symbolic link, has several hard links, or is not a regular file;
/// - a file of a user other than this user and root, unless the group of the directory shares it. A process of root
///   also accepts files of the directory's owner.
///
/// If root makes files in the directory of another user, the files belong to that user. So if root pauses the schedule
/// of that user, the schedule can still open the files. A user who can write to the directory, or to a directory above
/// it, can still remove the store or its files.
///
/// Clones are cheap, and share the leases that they hold. These leases end when the last clone is dropped, or when the
/// process ends. Claims do not end with the process: they only expire. Each lease keeps one file open. Claims are not
/// synced to the disk, so a power loss may lose the claims of the last seconds. On a full disk, no file can be made and
/// no file can grow. An admission that needs a new or a longer file then fails with an [outage](MutexError::is_outage).
/// But leases that are held are renewed and released as usual.
///
/// Terms are measured on the wall clock, because all processes share this clock.
///
/// - If the clock is set **back**, released leases stay free, and the leases of a dead process are free at once. Claims
///   and the minimum holds of [`hold_at_least`](crate::Event::hold_at_least) last longer, for example an hour longer if
///   the clock is set back by an hour. If a live holder blocks an admission, the report says that the holder's `since`
///   lies in the future, and the skip counts as a [failure](crate::SkipReason::is_failure).
/// - If the clock is set **forward** by more than the rest of a term, a lease ends early, unless it has a lifeline.
///
/// ```
/// use std::time::Duration;
/// use soloist::store::{LeaseRequest, Owner};
/// use soloist::time::Clock;
/// use soloist::{EventMutex, FileMutex, MutexName, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let mutex = FileMutex::in_dir(dir)?;
/// let name = MutexName::lease("reports")?;
/// let request = LeaseRequest::new(name.clone(), Term::new(Duration::from_secs(60))?, &Clock::system());
/// let lease = mutex.create(&request)?.expect("it is free");
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
    network: NetworkFilesystem,
    clock: Clock,
    life_locks: Mutex<LifeLocks>,
}

/// The life files that this process has locked, for leases that it holds. If a lease is lost, its life file stays here
/// until a call finds that the lease is lost, or until this process acquires the name again.
type LifeLocks = HashMap<(Owner, MutexName), LifeLock>;

impl FileMutex {
    /// Opens the directory `path`, and makes it with mode 0700 if it does not exist.
    ///
    /// # Errors
    ///
    /// - The path is not absolute. A relative path names another directory in a process with another working directory.
    /// - The directory can't be made or opened.
    /// - The directory is on a network filesystem, see [`NetworkFilesystem`](crate::store::NetworkFilesystem).
    /// - On Unix, all users can write to the directory, and so could plant or replace files.
    /// - On Unix, the directory belongs to a user other than this user and root, and its group does not share it. A
    ///   process of root accepts the directory of any user.
    /// - On Unix, the path is a symbolic link that another user made.
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

    /// Returns a builder, which can set options.
    pub fn builder(path: impl Into<PathBuf>) -> FileMutexBuilder {
        FileMutexBuilder::new(path.into())
    }

    /// Returns the directory, as an absolute path.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Opens and checks the directory that is at the store's path now.
    fn directory(&self) -> Result<Arc<Directory>, FileError> {
        let opened = Directory::open(self.dir(), self.shared.network);
        opened.map(Arc::new).map_err(FileError::of_directory(self.dir()))
    }

    /// Returns the files of each mutex that has a file of this kind.
    fn paths_with(&self, kind: &str) -> Result<Vec<MutexPaths>, FileError> {
        let directory = self.directory()?;
        let files = files_of(self.dir(), |found| found == kind).map_err(FileError::of_directory(self.dir()))?;
        Ok(files.iter().map(|file| MutexPaths::beside(Arc::clone(&directory), file)).collect())
    }

    fn life_locks(&self) -> MutexGuard<'_, LifeLocks> {
        lock(&self.shared.life_locks)
    }

    /// Takes the locked life file of a lease out of the map. Returns `None` if another process locked the life file:
    /// after a `fork`, the map of the child still has the life files of the parent.
    fn take_life_lock(&self, owner: Owner, name: &MutexName) -> Option<LifeLock> {
        self.life_locks().remove(&(owner, name.clone())).filter(LifeLock::is_of_this_process)
    }

    /// Decides on one admission. Locks the mutex of the admission, and the mutexes of the names that exclude the
    /// admission. If a lock file is missing, it is made. So two admissions that exclude each other always lock a common
    /// file, and are decided one after the other.
    fn admit(&self, admission: &Admission, deadline: Moment) -> Result<Admitted, FileError> {
        let name = admission.name();
        let mut names: Vec<&MutexName> = iter::once(name).chain(admission.excluded_by()).collect();
        names.sort_by_key(|name| name.mutex());
        names.dedup_by_key(|name| name.mutex());
        let directory = self.directory()?;
        let mut locks = Vec::new();
        for each in names {
            let kind = if each.mutex() == name.mutex() { LockKind::Exclusive } else { LockKind::Shared };
            let paths = MutexPaths::of(Arc::clone(&directory), each.mutex());
            let lock = MutexLock::wait_for(paths.open_or_make(LOCK)?, kind, deadline)?;
            locks.push((paths, lock));
        }
        let now = self.shared.clock.now();
        let locked: Result<Vec<OpenedMutex>, FileError> =
            locks.into_iter().map(|(paths, lock)| OpenedMutex::read(paths, Some(lock), now)).collect();
        let locked = locked?;
        let mutex_of =
            |name: &MutexName| locked.iter().find(|mutex| mutex.is_of(name)).expect("all that are named were locked");
        for excluding in admission.excluded_by() {
            if let Some(holder) = mutex_of(excluding).holder(excluding)? {
                return Ok(Admitted::Excluded(Held::new(excluding.clone(), Some(holder))));
            }
        }
        let (answer, life) = mutex_of(name).admit(admission)?;
        if let Some(life) = life {
            let mut locks = self.life_locks();
            locks.retain(|(_, held), _| held != name); // Earlier leases of this name have ended.
            locks.insert((admission.request().owner(), name.clone()), life);
        }
        Ok(answer)
    }

    /// Runs `action` on the mutex of `name`, under the lock of the mutex. Returns `absent` if the mutex was never
    /// requested.
    fn on_mutex<T>(
        &self,
        name: &MutexName,
        absent: T,
        deadline: Moment,
        action: impl FnOnce(OpenedMutex) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let paths = MutexPaths::of(self.directory()?, name.mutex());
        let Some(file) = paths.open_if_there(LOCK)? else { return Ok(absent) };
        let lock = MutexLock::wait_for(file, LockKind::Exclusive, deadline)?;
        action(OpenedMutex::read(paths, Some(lock), self.shared.clock.now())?)
    }

    /// Returns which of these `names` of one mutex are held. The read holds the lock of the mutex, so that all answers
    /// are as of one moment. If the lock does not become free before `deadline`, the state is read without the lock, so
    /// that a stuck process does not hide the holders.
    fn held_in(&self, paths: MutexPaths, deadline: Moment, names: Names<'_>) -> Result<Vec<Held>, FileError> {
        let Some(file) = paths.open_if_there(LOCK)? else { return Ok(Vec::new()) };
        let lock = MutexLock::wait_for(file, LockKind::Exclusive, deadline).ok();
        OpenedMutex::read(paths, lock, self.shared.clock.now())?.held(names)
    }

    /// Reads all states in the directory, and returns the held leases of `names`. A file that can't be used is left
    /// out.
    fn list(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        let failed = |error: FileError| error.while_trying_to("list leases");
        let deadline = lock_deadline();
        let mut held = Vec::new();
        for paths in self.paths_with(STATE).map_err(failed)? {
            match self.held_in(paths, deadline, names).map_err(failed) {
                Err(error) if error.is_outage() => return Err(error),
                found => held.extend(found.unwrap_or_default()),
            }
        }
        Ok(held)
    }

    /// Returns a warning for each state that can't be used. Files that can't be opened are left out, because
    /// [`health::warnings`] warns of them.
    #[cfg(unix)]
    fn unusable_states(&self) -> Result<Vec<StoreWarning>, FileError> {
        let deadline = lock_deadline();
        let mut warnings = Vec::new();
        for paths in self.paths_with(STATE)? {
            if paths.open_if_there(STATE).is_ok() {
                let found = self.held_in(paths, deadline, Names::Each(&[]));
                warnings.extend(found.err().map(|FileError { path, source, .. }| {
                    StoreWarning::new(format_args!("the file {} can't be used: {source}", path.display()))
                }));
            }
        }
        Ok(warnings)
    }

    /// Changes the entry of a lease. Returns `false`, and changes nothing, if the owner does not hold the name any
    /// more, or if `change` returns no entry.
    fn change_entry(
        &self,
        lease: &Lease,
        deadline: Moment,
        change: impl FnOnce(StateEntry) -> Option<StateEntry>,
    ) -> Result<bool, FileError> {
        self.on_mutex(lease.name(), false, deadline, |mutex| mutex.change(lease, change))
    }

    /// Releases a lease, and unlocks its life file even if the release fails.
    fn release(&self, lease: &Lease, minimum_hold: Option<Term>, deadline: Moment) -> Result<bool, MutexError> {
        let life = self.take_life_lock(lease.owner(), lease.name()).map(LifeLock::for_release);
        let released = self.on_mutex(lease.name(), false, deadline, |mutex| {
            let now = mutex.now;
            let released = mutex.change(lease, |entry| {
                Some(match minimum_hold {
                    None => entry.lasting(Lasts::Ended),
                    Some(term) => {
                        entry.lasting(Lasts::Fixed).with_holder(|holder| holder.held_until(wall_plus(now, term.get())))
                    }
                })
            });
            // The life file is unlocked while the mutex is still locked. Otherwise, the next holder could find this
            // life file locked, and would have to use the life file with the next number instead.
            drop(life);
            released
        });
        released.map_err(|error| error.while_trying_to(attempted_release(lease)))
    }

    fn renew(&self, lease: &Lease, term: Term, deadline: Moment) -> Result<bool, FileError> {
        let until = || wall_plus(self.shared.clock.now(), term.get());
        let ours =
            self.change_entry(lease, deadline, |entry| Some(entry.with_holder(|holder| holder.held_until(until()))))?;
        if !ours {
            self.take_life_lock(lease.owner(), lease.name());
        }
        Ok(ours)
    }
}

#[cfg(unix)]
impl FileMutex {
    /// Returns a lifeline for a lease of this process: a duplicate of the life file's descriptor. From then on, the
    /// lease lasts as long as the life file is locked.
    fn lend_life_file(&self, lease: &Lease) -> Result<Lifeline, FileError> {
        let (owner, name) = (lease.owner(), lease.name());
        let unusable = |why: &str| FileError::unusable(&state_in(self.dir(), name.mutex()), why);
        let lent = match self.life_locks().get_mut(&(owner, name.clone())) {
            Some(life) if life.is_of_this_process() => life.lend()?,
            _ => return Err(unusable("this process does not hold the lease")),
        };
        if !self.change_entry(lease, lock_deadline(), |entry| {
            (entry.lasts != Lasts::Fixed).then(|| entry.lasting(Lasts::Bound))
        })? {
            self.take_life_lock(owner, name);
            return Err(unusable("its owner does not hold the lease any more"));
        }
        let (store, lease) = (self.clone(), lease.clone());
        Ok(Lifeline::of(lent).telling(move |process_group| {
            // If this write fails, only the process group is missing in the state. If the next renewal can't write
            // either, the renewal reports the error.
            let _ = store.change_entry(&lease, lock_deadline(), |entry| {
                Some(entry.with_holder(|holder| holder.with_process_group(process_group)))
            });
        }))
    }
}

impl FileMutexBuilder {
    /// Opens the directory, and makes it if it does not exist.
    ///
    /// # Errors
    ///
    /// The errors of [`FileMutex::in_dir`].
    pub fn open(self) -> Result<FileMutex, MutexError> {
        let Self { path, clock, network } = self;
        // Without a `.` or a slash at its end, so that a symbolic link there is seen as one.
        let dir: PathBuf = path.components().collect();
        let opened = if dir.is_absolute() {
            Directory::open_or_make(&dir, network)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, NOT_ABSOLUTE))
        };
        opened.map_err(|error| error::directory_error(format!("open the directory {}", dir.display()), error))?;
        Ok(FileMutex { shared: Arc::new(Shared { dir, network, clock, life_locks: Mutex::default() }) })
    }
}

impl EventMutex for FileMutex {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        create_by_admission(self, request)
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        Ok(!self.held(Names::of(name))?.is_empty())
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.release(lease, None, lock_deadline())
    }

    fn describe(&self) -> Description {
        Description::of(&*self.shared).with_scope(Scope::Host).with_extension()
    }

    fn clock(&self) -> Clock {
        self.shared.clock.clone()
    }

    fn carry_out(&self, batch: &mut Batch) {
        let (releases, admissions) = batch.slots_mut();
        let deadline = lock_deadline();
        // Each release unlocks a life file, so each release is carried out, even after an outage.
        fill_each(releases, |asked| {
            ask_store(|| asked.attempted(), || self.release(asked.lease(), asked.minimum_hold(), deadline))
        });
        let mut outage = releases.iter().find_map(Slot::outage).cloned();
        answer_each(admissions, &mut outage, Admission::attempted, |admission| {
            self.admit(admission, deadline).map_err(|error| error.while_trying_to(admission.attempted()))
        });
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        let deadline = lock_deadline();
        fill_each(leases, |lease| {
            self.renew(lease, term, deadline).map_err(|error| error.while_trying_to(attempted_extension(lease)))
        });
    }

    /// Returns a lifeline for a lease. Claims and markers have no life file, and so no lifeline: they end with their
    /// terms.
    #[cfg(unix)]
    fn lifeline(&self, lease: &Lease) -> Result<Option<Lifeline>, MutexError> {
        if !lease.name().is_lease() {
            return Ok(None);
        }
        self.lend_life_file(lease)
            .map(Some)
            .map_err(|error| error.while_trying_to(format_args!("make a lifeline for {}", lease.name())))
    }

    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        let deadline = lock_deadline();
        let held_beside = |mutex: &str, names| self.held_in(MutexPaths::of(self.directory()?, mutex), deadline, names);
        match names {
            Names::Each(names) => {
                let mut held = Vec::new();
                for names in names.chunk_by(|one, next| one.mutex() == next.mutex()) {
                    let found = held_beside(names[0].mutex(), Names::Each(names));
                    held.extend(
                        found.map_err(|error| error.while_trying_to(format_args!("read {}", names[0].in_words())))?,
                    );
                }
                Ok(held)
            }
            Names::MarksOf(mutex) => held_beside(mutex, names).map_err(|error| error.while_trying_to("list markers")),
            Names::LeasesWithPrefix(_) => self.list(names),
        }
    }

    fn break_lease(&self, name: &MutexName) -> Result<Option<Held>, MutexError> {
        self.on_mutex(name, None, lock_deadline(), |mutex| mutex.break_lease(name))
            .map_err(|error| error.while_trying_to(format_args!("break {}", name.in_words())))
    }

    fn run_log(&self) -> Option<&dyn RunLog> {
        Some(self)
    }

    /// Opens every file in the directory. Warns if other users can open a file or change the directory, and if a file
    /// can't be used. On systems other than Unix, the check returns no warnings.
    #[cfg(unix)]
    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        let check = || {
            let directory = self.directory()?;
            let mut warnings = health::warnings(&directory).map_err(FileError::of_directory(self.dir()))?;
            warnings.extend(self.unusable_states()?);
            Ok(warnings)
        };
        check().map_err(|error: FileError| error.while_trying_to("check the directory"))
    }
}

impl fmt::Debug for FileMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut held: Vec<String> = self.life_locks().keys().map(|(_, name)| name.to_string()).collect();
        held.sort_unstable();
        f.debug_struct("FileMutex").field("dir", &self.shared.dir).field("held", &held).finish_non_exhaustive()
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
    fn a_path_that_is_not_whole_is_refused() {
        for path in ["", "~/locks", "locks", "./locks"] {
            let error = FileMutex::in_dir(path).unwrap_err().to_string();
            let why = "its path is not absolute: write the whole path, such as /var/lib/myapp/locks";
            assert_eq!(error, format!("could not open the directory {path}: {why}"));
        }
    }
}
