//! A store of your own, and the suite that tells whether it keeps the contract. This one is a folder that processes
//! share: `cargo run --example custom_mutex --features contract-tests`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use soloist::contract::{self, Harness};
use soloist::{Clock, EventMutex, FencingToken, Lease, LeaseRequest, MutexError, MutexName, Owner};
use uuid::Uuid;

/// A file for each name that is held; `cat` shows its owner, until when in microseconds, and the name.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Works on the entry of a name, one at a time: the system unlocks a file when its process ends, however it does.
    fn locked<T>(&self, name: &MutexName, work: impl FnOnce(&Path) -> io::Result<T>) -> Result<T, MutexError> {
        let entry = self.0.join(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.to_string().as_bytes()).to_string());
        let locked = || -> io::Result<T> {
            let turn = fs::File::create(self.0.join("turn"))?;
            turn.lock()?;
            work(&entry)
        };
        locked().map_err(|error| MutexError::unavailable(format!("ask the folder for {name}"), error))
    }

    fn next_token(&self) -> io::Result<FencingToken> {
        let last = read(&self.0.join("token"))?.parse().ok().map(FencingToken::new);
        let token = FencingToken::after(last, Clock::system().now());
        fs::write(self.0.join("token"), token.to_string()).map(|()| token)
    }
}

impl EventMutex for Folder {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.locked(request.name(), |entry| {
            if owner(entry)?.is_some() {
                return Ok(None);
            }
            let (token, until) = (self.next_token()?, Clock::system().now() + request.term().get());
            let text = format!("{} {} {:?}", request.owner(), until.timestamp_micros(), request.name());
            fs::write(entry, text).map(|()| Some(request.granted(token)))
        })
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.locked(name, |entry| Ok(owner(entry)?.is_some()))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.locked(lease.name(), |entry| match owner(entry)? {
            Some(owner) if owner == lease.owner() => fs::remove_file(entry).map(|()| true),
            _ => Ok(false),
        })
    }
}

/// Who holds an entry now. One that a killed process wrote half was never granted, and holds nothing.
fn owner(entry: &Path) -> io::Result<Option<Owner>> {
    let text = read(entry)?;
    let mut words = text.splitn(3, ' ');
    let (owner, until) =
        (words.next().and_then(|owner| owner.parse().ok()), words.next().and_then(|at| at.parse().ok()));
    Ok(owner.filter(|_| until > Some(Clock::system().now().timestamp_micros())))
}

fn read(file: &Path) -> io::Result<String> {
    fs::read_to_string(file)
        .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(String::new()) } else { Err(error) })
}

/// What the suite asks for: the store, and how another process finds it.
pub(crate) struct InFolder {
    folder: Folder,
    is_ours: bool,
}

impl InFolder {
    /// A store that has a new folder for itself.
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
    contract::check(|| InFolder::new().expect("the directory for temporary files takes a folder"))
}
