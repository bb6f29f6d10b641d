//! Calls to the C library that no dependency wraps. This is the only file with unsafe code.

use std::io::{self, PipeWriter, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, write};
#[cfg(any(target_os = "linux", feature = "cli"))]
use rustix::process::Signal;
#[cfg(target_os = "linux")]
use rustix::process::set_parent_process_death_signal;

/// Registers `leave`: the system calls it when this process ends by `exit` or by a return from `main`, on the thread
/// that ends the process. Returns whether `leave` was registered.
#[expect(unsafe_code, reason = "atexit")]
pub(crate) fn at_exit(leave: extern "C" fn()) -> bool {
    // SAFETY: `leave` is a function of the program itself, so it stays valid as long as the process.
    unsafe { libc::atexit(leave) == 0 }
}

/// Registers `in_the_child`: after each `fork` of this process, the system calls it in the child before `fork` returns.
/// Returns whether `in_the_child` was registered.
#[expect(unsafe_code, reason = "pthread_atfork")]
pub(crate) fn at_fork(in_the_child: extern "C" fn()) -> bool {
    // SAFETY: `in_the_child` is a function of the program itself, so it stays valid as long as the process.
    unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) == 0 }
}

/// Returns the number of this thread. It is never zero, and no other living thread has it. It is read without thread-local
/// values, because these may be gone when the thread ends the process.
#[expect(unsafe_code, reason = "pthread_self")]
#[expect(clippy::cast_possible_truncation, reason = "it is an address or a small number")]
pub(crate) fn this_thread() -> usize {
    // SAFETY: `pthread_self` can be called at any time, and can't fail.
    (unsafe { libc::pthread_self() }) as usize
}

/// Returns whether this process ignores `signal`. A process inherits this from its parent, for example from `nohup`.
#[cfg(feature = "signals")]
#[expect(unsafe_code, reason = "sigaction")]
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    let mut present = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the call changes nothing, and writes the present action to `present`, which has the right type.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), present.as_mut_ptr()) };
    // SAFETY: the call succeeded, so the action was written.
    asked == 0 && unsafe { present.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Returns the process group of `process`, or of this process if `process` is zero. The process can belong to any user.
/// Returns a negative number if the process does not exist, and zero if the group is outside of this PID namespace.
/// `rustix` does not expect zero, so this function does not use `rustix`.
#[cfg(feature = "cli")]
#[expect(unsafe_code, reason = "getpgid")]
pub(crate) fn group_of(process: i32) -> i32 {
    // SAFETY: `getpgid` reads nothing but its argument.
    unsafe { libc::getpgid(process) }
}

/// A way to handle a signal.
#[cfg(feature = "cli")]
#[derive(Clone, Copy)]
pub(crate) enum SignalAction {
    Default,
    Ignore,
}

/// A signal whose action was changed. The drop of this value restores the action that the signal had before.
#[cfg(feature = "cli")]
pub(crate) struct ChangedSignal {
    signal: libc::c_int,
    before: libc::sigaction,
}

#[cfg(feature = "cli")]
impl SignalAction {
    /// Sets this action for `signal`. Returns `None` if the action of the signal can't be changed.
    #[expect(unsafe_code, reason = "sigaction")]
    pub(crate) fn of(self, signal: Signal) -> Option<ChangedSignal> {
        let signal = signal.as_raw();
        // SAFETY: zeros are a valid value: no flags, an empty mask.
        let [mut before, mut action]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
        action.sa_sigaction = match self {
            Self::Default => libc::SIG_DFL,
            Self::Ignore => libc::SIG_IGN,
        };
        // SAFETY: no handler is installed, and both structures live during the call.
        let changed = unsafe { libc::sigaction(signal, &raw const action, &raw mut before) };
        (changed == 0).then_some(ChangedSignal { signal, before })
    }
}

#[cfg(feature = "cli")]
impl Drop for ChangedSignal {
    #[expect(unsafe_code, reason = "sigaction")]
    fn drop(&mut self) {
        // SAFETY: `before` is a value of the system: the call that changed the signal's action returned the old action.
        unsafe { libc::sigaction(self.signal, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// The lowest number for an inherited descriptor. Scripts use lower numbers: for example, at `exec 3>file` the shell
/// closes the descriptor that had the number 3 before.
const OUT_OF_THE_WAY: i32 = 100;

/// Makes the kernel send `signal` to the process of `command` at the end of the thread that starts the command. The
/// thread can end alone, or together with its process.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "between fork and exec")]
pub(crate) fn signal_at_death_of_this_thread(command: &mut Command, signal: Signal) {
    let in_the_child = move || Ok(set_parent_process_death_signal(Some(signal))?);
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(in_the_child) };
}

/// Lets the process of `command` inherit the descriptor `inherited`. No other process that starts meanwhile inherits
/// it. Before the program begins, the process writes its id to `pid_pipe`, as a line.
///
/// A prepared command is started by `fork` and `execvp`, and not by the faster `posix_spawn`. If a script has no first
/// line `#!`, the `execvp` of most C libraries runs it with the shell, but `posix_spawn` refuses it.
#[expect(unsafe_code, reason = "between fork and exec")]
pub(crate) fn prepare(command: &mut Command, inherited: Option<OwnedFd>, pid_pipe: Option<PipeWriter>) {
    let in_the_child = move || -> io::Result<()> {
        if let Some(inherited) = &inherited {
            // The child clears close-on-exec of its own descriptor. The descriptor of the parent keeps the flag,
            // because the flag belongs to a descriptor, and not to the open file that parent and child share.
            match fcntl_dupfd_cloexec(inherited, OUT_OF_THE_WAY) {
                Ok(moved) => {
                    fcntl_setfd(&moved, FdFlags::empty())?;
                    // A drop would close the descriptor, but the new program needs it open.
                    std::mem::forget(moved);
                }
                // `OUT_OF_THE_WAY` may be above the process's limit of open files. Then the descriptor keeps its
                // number.
                Err(_) => fcntl_setfd(inherited, FdFlags::empty())?,
            }
        }
        if let Some(pid_pipe) = &pid_pipe {
            let mut line = [0; 16];
            let mut rest = &mut line[..];
            writeln!(rest, "{}", std::process::id())?;
            let length = 16 - rest.len();
            write(pid_pipe, &line[..length])?;
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls and writes a number to its stack. It neither allocates nor locks.
    unsafe { command.pre_exec(in_the_child) };
}
