//! Shows a store of your own: a folder that processes share. The program tests whether the store keeps the contract:
//! `cargo run --example custom_mutex`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use soloist::contract::{self, Harness};
use soloist::store::{Lease, LeaseRequest, Owner};
use soloist::time::Clock;
use soloist::{EventMutex, FencingToken, MutexError, MutexName};
use uuid::Uuid;

/// A folder with a file for each held name. The file has the owner, the end of the lease in microseconds since 1970,
/// and the name.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Calls `work` with the file of a name and the present owner of the name. The file `turn` is locked meanwhile, so
    /// that only one process works at a time. If the process is killed, the system unlocks the file.
    fn locked<T>(
        &self,
        name: &MutexName,
        work: impl FnOnce(&Path, Option<Owner>) -> io::Result<T>,
    ) -> Result<T, MutexError> {
        let entry = self.0.join(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.to_string().as_bytes()).to_string());
        let locked = || -> io::Result<T> {
            let turn = fs::File::create(self.0.join("turn"))?;
            turn.lock()?;
            work(&entry, owner(&read(&entry)?))
        };
        locked().map_err(|error| MutexError::unavailable(format!("ask the folder for {name}"), error))
    }
}

impl EventMutex for Folder {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.locked(request.name(), |entry, owner| {
            if owner.is_some() {
                return Ok(None);
            }
            let (now, last) = (Clock::system().now(), read(&self.0.join("token"))?.parse().ok());
            let token = FencingToken::after(last.map(FencingToken::new), now);
            fs::write(self.0.join("token"), token.to_string())?;
            let until = (now + request.term().get()).timestamp_micros();
            fs::write(entry, format!("{} {until} {:?}", request.owner(), request.name()))?;
            Ok(Some(request.granted(token)))
        })
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.locked(name, |_, owner| Ok(owner.is_some()))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.locked(lease.name(), |entry, owner| match owner {
            Some(owner) if owner == lease.owner() => fs::remove_file(entry).map(|()| true),
            _ => Ok(false),
        })
    }
}

/// Returns the owner in an entry, if the lease has not ended. Returns `None` for a half-written entry: its
/// process was killed before the lease was granted.
fn owner(entry: &str) -> Option<Owner> {
    let (owner, rest) = entry.split_once(' ')?;
    let until: i64 = rest.split_once(' ')?.0.parse().ok()?;
    (Clock::system().now().timestamp_micros() < until).then_some(owner.parse().ok()?)
}

fn read(file: &Path) -> io::Result<String> {
    fs::read_to_string(file).or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(String::new()) } else { Err(e) })
}

/// The harness of the contract tests: a store, whose path is the address for other processes.
pub(crate) struct InFolder {
    folder: Folder,
    is_ours: bool,
}

impl InFolder {
    /// Creates a store in a new folder.
    pub(crate) fn new() -> io::Result<Self> {
        let folder = env::temp_dir().join(format!("soloist custom_mutex {}", Owner::unique()));
        fs::create_dir(&folder)?;
        Ok(Self { folder: Folder(folder), is_ours: true })
    }
}

impl Drop for InFolder {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = fs::remove_dir_all(&self.folder.0);
        }
    }
}

impl Harness for InFolder {
    type Mutex = Folder;

    fn mutex(&self) -> Folder {
        self.folder.clone()
    }

    fn address(&self) -> Option<String> {
        self.folder.0.to_str().map(str::to_owned)
    }

    fn at(address: &str) -> Self {
        Self { folder: Folder(address.into()), is_ours: false }
    }
}

fn main() -> Result<(), contract::Failed> {
    contract::check(|| InFolder::new().expect("a folder can be created in the directory for temporary files"))
}
