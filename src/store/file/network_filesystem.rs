//! The filesystem of a directory, and whether its locks are trusted.

use std::io;
use std::path::Path;

#[cfg(unix)]
const OVERLAYFS: u32 = 0x794C_7630;

/// The choice for a directory on a network filesystem: NFS, SMB, AFS, Coda, 9P, FUSE, Ceph, Lustre or GPFS.
///
/// ```
/// use soloist::store::NetworkFilesystem;
/// use soloist::FileMutex;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let mutex = FileMutex::builder(dir).on_network_filesystem(NetworkFilesystem::Trust).open()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NetworkFilesystem {
    /// Refuses a directory on a network filesystem, and returns an error. The locks of such a filesystem may exclude
    /// only the processes of this host, or may vanish when the file server restarts.
    #[default]
    Refuse,
    /// Uses a directory on a network filesystem. Choose this only if you know that the locks of this filesystem exclude
    /// the processes of all hosts that use the directory, and that the clocks of these hosts agree.
    Trust,
}

impl NetworkFilesystem {
    pub(super) fn accept(self, filesystem: Option<&str>) -> io::Result<()> {
        match (self, filesystem) {
            (_, None) | (Self::Trust, _) => Ok(()),
            (Self::Refuse, Some(kind)) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "it is on a network filesystem, {kind}, and its locks may fail to exclude other processes: use a directory on a \
                     local disk; if you are sure that the locks work, call `on_network_filesystem(NetworkFilesystem::Trust)`"
                ),
            )),
        }
    }
}

/// Returns whether `dir` is on overlayfs, the filesystem of a single container. Systems other than Linux always return
/// `false`.
#[cfg(unix)]
pub(super) fn is_overlay(dir: &Path) -> io::Result<bool> {
    Ok(magic_of(dir)? == OVERLAYFS)
}

/// Returns the number of the filesystem of `dir`, as in `statfs(2)`.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn magic_of(dir: &Path) -> io::Result<u32> {
    let kind = rustix::fs::statfs(dir)?.f_type;
    // The number has 32 bits. On some systems, the field has a signed type, and a large number is negative. The cast
    // restores the number.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unnecessary_cast)]
    Ok(kind as u32)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[allow(clippy::unnecessary_wraps)]
pub(super) fn magic_of(_dir: &Path) -> io::Result<u32> {
    Ok(0)
}

/// Returns the name of the network filesystem with this number, as `statfs(2)` lists them.
pub(super) fn named(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517B => "SMB",
        0xFF53_4D42 => "CIFS",
        0xFE53_4D42 => "SMB2",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x0102_1997 => "9P",
        // Network filesystems such as sshfs and Gluster use FUSE, but local filesystems do so, too.
        0x6573_5546 => "FUSE",
        0x00C3_6400 => "Ceph",
        0x0BD0_0BD0 => "Lustre",
        0x4750_4653 => "GPFS",
        _ => return None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_not_a_network_and_nfs_is() {
        assert_eq!(named(magic_of(Path::new("/proc")).unwrap()), None);
        assert_eq!(named(0xEF53), None);
        assert_eq!(named(0x6969), Some("NFS"));
        assert_eq!(named(0xFF53_4D42), Some("CIFS"));
    }

    #[test]
    fn a_network_filesystem_is_refused_by_name_unless_it_is_trusted() {
        assert!(NetworkFilesystem::Refuse.accept(None).is_ok());
        assert!(NetworkFilesystem::Trust.accept(Some("NFS")).is_ok());
        assert_eq!(
            NetworkFilesystem::Refuse.accept(Some("NFS")).unwrap_err().to_string(),
            "it is on a network filesystem, NFS, and its locks may fail to exclude other processes: use a directory on a \
             local disk; if you are sure that the locks work, call `on_network_filesystem(NetworkFilesystem::Trust)`"
        );
    }
}
