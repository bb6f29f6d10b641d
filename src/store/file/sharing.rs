//! `Sharing`: who shares the directory of a store.

/// The users who share a directory. It is for Unix, and has no effect elsewhere.
///
/// A user who can open a file of the store can lock it, and so block its event. So the files are their owner's alone (mode
/// 0600), or also their group's (0660) where services of several users share the directory. The directory's mode says
/// which, to all who use it:
///
/// | the directory | its files | |
/// | --- | --- | --- |
/// | all users can write to it | | refused |
/// | setgid, and its group can read, write and enter it (2770, 2775) | 0660, of the directory's group | shared |
/// | as that, and sticky (3770) | | refused |
/// | its group can write to it (0770, 0775) | 0600 | [`check`](crate::EventMutex::check) warns: the group can remove files |
/// | any other | 0600 | |
///
/// ```
/// use soloist::store::Sharing;
/// use soloist::FileMutex;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let mutex = FileMutex::builder(dir.join("locks")).shared_with(Sharing::Group).open()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sharing {
    /// The mode of the directory decides, as in the table. A directory that is made here gets mode 0700.
    #[default]
    ByMode,
    /// The group of the directory shares it. When its owner opens it, its mode is changed as by `chmod g+rwxs`. Any
    /// other user gets an error until that was done. All members of the group can block and end its leases.
    Group,
}
