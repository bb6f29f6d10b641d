//! The owners and modes that a directory and its files may have.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

const ROOT: u32 = 0;
/// The mode of a file that only its owner can read and write.
const PRIVATE: u32 = 0o600;
/// The mode of a file that its owner and its group can read and write.
const SHARED: u32 = 0o660;
const WRITABLE_BY_ALL: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// The mode of a directory that its group shares: it is setgid, and the group can read, write and enter it.
const SHARED_DIRECTORY: u32 = 0o2070;

/// The owner and the group of a directory, and whether the group shares its files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    owner: u32,
    group: u32,
    pub(crate) shared: bool,
}

/// The origin of a file: `Found` existed before this call, and `Made` was made by this call.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Origin {
    Found,
    Made,
}

impl Access {
    /// Returns the rules for the files of this directory. Refuses a directory if all users can write to it, or if it is
    /// shared and sticky. Also refuses a directory of another user, unless its group shares it, root owns it, or this
    /// process runs as root.
    pub(super) fn in_directory(path: &Path, directory: &Metadata) -> io::Result<Self> {
        let path = path.display();
        let mode = directory.mode();
        let owner = directory.uid();
        let us = our_user();
        let (group, shared) = (directory.gid(), mode & SHARED_DIRECTORY == SHARED_DIRECTORY);
        if mode & WRITABLE_BY_ALL != 0 {
            return Err(refused(format!(
                "all users can write to the directory, and could plant files: use a subdirectory that only its owner can write \
                 to, the same for all processes; or, if nothing but this store uses it, run `chmod o-w {path}`"
            )));
        }
        if shared && mode & STICKY != 0 {
            return Err(refused(format!(
                "the directory is sticky, so that its users can't replace each other's files: let its owner, user {owner}, run \
                 `chmod -t {path}`"
            )));
        }
        if !shared && us != ROOT && ![us, ROOT].contains(&owner) {
            return Err(refused(format!(
                "the directory belongs to user {owner}, not to user {us} or root: use another directory; or share this \
                 one with group {group}, whose members can then block and end its leases: let user {owner} run \
                 `chmod g+rwxs {path}`"
            )));
        }
        Ok(Self { owner, group, shared })
    }

    /// Refuses a file that another user may have planted. `us` is the user of this process.
    pub(super) fn accept(&self, file: &Metadata, us: u32) -> io::Result<()> {
        let owner = file.uid();
        let is_the_groups = self.shared && file.gid() == self.group;
        let is_the_directorys = us == ROOT && owner == self.owner;
        let is_trusted = [us, ROOT].contains(&owner) || is_the_groups || is_the_directorys;
        if !file.is_file() || file.nlink() > 1 || !is_trusted {
            return Err(refused(format!(
                "it may have been planted: it is no regular file, or has several names (hard links), or belongs to another user; its \
                 owner is user {owner}, its group {}, and it has {} names: stop all processes that use the directory, then remove it; \
                 if several users share the store, its directory needs `chmod g+rwxs`",
                file.gid(),
                file.nlink()
            )));
        }
        if owner != us && file.mode() & WRITABLE_BY_ALL != 0 {
            let why = format!("all users can write to it: let its owner, user {owner}, run `chmod o-w` on it");
            return Err(refused(why));
        }
        Ok(())
    }

    /// Gives a file of this user the group and the mode that all files of the store have. If root has just made the
    /// file, this also sets its owner to the directory's owner.
    ///
    /// A failed change is ignored, because its effect is reported elsewhere: a user who can't open the file gets an
    /// error, and [`exposure`](Self::exposure) warns if too many users can open it.
    pub(super) fn settle(&self, file: &File, found: &Metadata, origin: Origin, us: u32) {
        // If root finds its own file in a user's directory, the file keeps its mode. With a narrower mode, the user
        // might not be able to open the file.
        let is_the_users = us == ROOT && self.owner != ROOT && !self.shared && origin == Origin::Found;
        if found.uid() != us || is_the_users {
            return;
        }
        // If root pauses the schedule of a user, that user must be able to open the new file.
        let given_away = us == ROOT && self.owner != ROOT && origin == Origin::Made;
        let owner = given_away.then_some(self.owner);
        let group = (given_away || self.shared).then_some(self.group).filter(|group| *group != found.gid());
        let settled = (owner, group) == (None, None) || fchown(file, owner, group).is_ok();
        let mode = if settled { self.mode() } else { PRIVATE };
        if found.mode() & 0o7777 != mode {
            let _ = file.set_permissions(Permissions::from_mode(mode));
        }
    }

    /// Returns a warning if users who should not use this file can open it.
    pub(crate) fn exposure(&self, file: &Metadata) -> Option<String> {
        let mode = self.mode();
        (file.mode() & 0o777 & !mode != 0).then(|| {
            format!(
                "users other than its owner can open it, and block the event by locking it: let its owner, user {}, \
                 run `chmod {mode:o}` on it",
                file.uid()
            )
        })
    }

    fn mode(&self) -> u32 {
        if self.shared { SHARED } else { PRIVATE }
    }
}

/// Refuses a link to the directory, unless this user, root or the directory's owner made the link. The owner of a link
/// can change its target.
pub(super) fn accept_link(link: &Metadata, directory: &Metadata) -> io::Result<()> {
    if [our_user(), ROOT, directory.uid()].contains(&link.uid()) {
        return Ok(());
    }
    Err(refused(format!(
        "the path is a symbolic link of user {}, who can let it lead elsewhere: check where it leads now, and give the \
         path of that directory",
        link.uid()
    )))
}

/// Returns the error that explains why this user can't open this file or directory, or make a file in it.
pub(super) fn why_closed(found: &Metadata) -> io::Error {
    let owner = found.uid();
    let mode = found.mode() & 0o7777;
    let us = our_user();
    refused(format!(
        "it belongs to user {owner} and has mode {mode:o}, and this process runs as user {us}: use a directory of this user; or let \
         user {owner} give it away (`chown {us}`); or share the directory with a group of this user (`chmod g+rwxs`), and its files, \
         too (`chgrp` and `chmod {SHARED:o}`)"
    ))
}

pub(super) fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.into())
}

/// Returns the user of this process. The user is read each time, because a service may start as root and then become
/// another user.
pub(super) fn our_user() -> u32 {
    rustix::process::geteuid().as_raw()
}
