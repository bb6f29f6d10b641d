//! Frees a lease: asks the run that holds it to stop, and waits until the lease is free. Only `--force` breaks the
//! lease.

use std::thread;
use std::time::Duration;

use clap::ArgMatches;

use super::answer::{Answered, CommandAnswer, CommandFailure, FAILED, say};
use super::arguments::{duration_of, text};
use crate::base::error::MutexError;
use crate::base::escape::{Chain, OneLine};
use crate::lease::holder::Holder;
use crate::lease::label::this_host;
use crate::lease::name::{MutexName, UNLOCK};
use crate::lease::{request::LeaseRequest, term::Term};
use crate::store::event_mutex::{EventMutex, admission::Admission, held::Held, held::Names};
#[cfg(unix)]
use crate::task::process_group::orphans::end_orphans;
use crate::time::clock::{Clock, shown::HumanDuration};

/// The time that a command may take to stop after SIGTERM.
#[cfg(unix)]
const GRACE: Duration = Duration::from_secs(5);

/// The longest wait for the end of a lease after its command has ended.
const SETTLING: Duration = Duration::from_secs(5);

/// The extra time of a request to stop: it expires this long after the end of the lease or of the operator's wait,
/// whichever is later. So the run can still read the request.
const MARGIN: Duration = Duration::from_secs(10);

/// The time between two reads of the store.
const PAUSE: Duration = Duration::from_millis(300);

/// Frees a lease in the first of these stores that has the lease.
pub(super) fn unlock(stores: &[&dyn EventMutex], arguments: &ArgMatches) -> Answered {
    let name = MutexName::lease(text(arguments, "name")).map_err(|error| CommandFailure::usage(Chain(&error)))?;
    let mut held = None;
    for store in stores {
        if store.exists(&name)? {
            held = Some(*store);
            break; // Another store may be unavailable.
        }
    }
    let Some(store) = held else {
        return Ok(is_free(&name, "nobody holds it; `locks` lists the held names").with_code(FAILED));
    };
    let holder = holder(store, &name)?;
    if let Some(holder) = &holder {
        say(format_args!("{} is held by {holder}", OneLine(name.mutex())));
    }
    if arguments.get_flag("force") {
        return force(store, &name);
    }
    let holder = holder.ok_or_else(|| {
        CommandFailure::saying(
            "the store does not show its holder, so the holder can't be asked to stop: `--force` frees the lease",
        )
    })?;
    let wait = duration_of(arguments, "wait").unwrap_or_default();
    let ended = if holder.has_ended() { Some(holder) } else { ask_to_stop(store, &name, &holder, wait)? };
    let Some(ended) = ended else { return Ok(is_free(&name, "its holder has stopped")) };
    if !arguments.get_flag("kill") {
        return Err(command_runs_on(&ended));
    }
    end_command(&ended)?;
    let now = wait_until_free(store, &name, &ended, SETTLING)?;
    now.map_or_else(|| Ok(is_free(&name, "its command has ended")), |now| Err(command_runs_on(&now)))
}

fn is_free(name: &MutexName, why: &str) -> CommandAnswer {
    CommandAnswer::text(format!("{} is free: {why}", OneLine(name.mutex())))
}

/// Returns the holder, or `None` if the store can't show it.
fn holder(store: &dyn EventMutex, name: &MutexName) -> Result<Option<Holder>, MutexError> {
    Ok(store.held(Names::of(name))?.pop().and_then(Held::into_holder))
}

/// Writes a request to stop, and waits. The holder's process reads the request at the next renewal of the lease, and
/// then cancels the run. Returns the present entry of the holder if its process has ended, but its command goes on.
/// `None`: the lease is free.
fn ask_to_stop(
    store: &dyn EventMutex,
    name: &MutexName,
    holder: &Holder,
    wait: Duration,
) -> Result<Option<Holder>, CommandFailure> {
    let clock = Clock::system();
    let left = |holder: &Holder| (holder.until() - clock.now()).to_std().unwrap_or_default();
    let term = Term::new(left(holder).max(wait).saturating_add(MARGIN)).unwrap_or(Term::MAX);
    let request = LeaseRequest::new(name.request_to_stop(holder.token()), term, &clock).because(UNLOCK);
    // The answer does not matter: if the request exists already, another operator has written it.
    Admission::claim_only(request).ask(store)?;
    say(format_args!(
        "its holder is asked to stop: a run sees this when it next renews its lease; waiting for {}",
        HumanDuration(wait)
    ));
    let now = match wait_until_free(store, name, holder, wait)? {
        Some(now) if !now.has_ended() => now,
        free_or_ended => return Ok(free_or_ended),
    };
    let (left, name) = (HumanDuration(left(&now)), OneLine(name.mutex()));
    Err(CommandFailure::saying(format_args!(
        "{name} is still held, and is free in {left} unless its holder renews it:\n  \
         if the lease is long, the holder reads the request late: wait longer, with `--wait 5m`\n  \
         if the lease has a fixed term, or is held by a `LeaseGuard` or by a function that never checks for its cancellation: \
         end the holder's process, or wait\n  \
         if the holder's process is dead: wait, or free the lease at once with `--force`; a holder that lives would run beside the \
         next one"
    )))
}

/// Waits until `holder` no longer holds the lease, and then returns `None`, even if another process holds the lease by
/// then. If `holder` still holds the lease after the time `wait`, returns the present entry of `holder`. Returns this
/// entry earlier if the process of `holder` ends during the wait, but its command goes on.
fn wait_until_free(
    store: &dyn EventMutex,
    name: &MutexName,
    holder: &Holder,
    wait: Duration,
) -> Result<Option<Holder>, MutexError> {
    let clock = Clock::system();
    let latest = clock.moment().plus(wait);
    loop {
        let now = self::holder(store, name)?.filter(|now| now.owner() == holder.owner());
        let Some(now) = now else { return Ok(None) };
        let left = latest.since(clock.moment());
        if left.is_zero() || (now.has_ended() && !holder.has_ended()) {
            return Ok(Some(now));
        }
        thread::sleep(left.min(PAUSE)); // between two reads of the store
    }
}

fn force(store: &dyn EventMutex, name: &MutexName) -> Answered {
    let Some(held) = store.break_lease(name)? else {
        return Ok(is_free(name, "nobody held it any more").with_code(FAILED));
    };
    Ok(match held.into_holder().filter(Holder::has_ended) {
        None => is_free(name, "the former holder sees this when it next renews its lease"),
        Some(holder) => is_free(name, &format!("nothing stops its command, so end it: {holder}")),
    })
}

/// Returns the failure for a command that still runs although its scheduler has ended. The lease lasts until the
/// command ends, and no scheduler is left to end the command.
fn command_runs_on(holder: &Holder) -> CommandFailure {
    let is_here = holder.host() == &*this_host();
    CommandFailure::saying(match holder.process_group() {
        Some(group) if is_here => format!("its command still runs as process group {group}: `--kill` ends it"),
        Some(group) => {
            format!("its command still runs on {} as process group {group}: end it there", OneLine(holder.host()))
        }
        None => {
            "a process that it started still runs, and keeps a file of the store open: find it with `fuser DIR/*.life`"
                .to_owned()
        }
    })
}

#[cfg(unix)]
fn end_command(holder: &Holder) -> Result<(), CommandFailure> {
    let group = holder.process_group().filter(|_| holder.host() == &*this_host());
    let group = group.ok_or_else(|| command_runs_on(holder))?;
    match end_orphans(group, holder.owner(), GRACE) {
        Ok(true) => Ok(()),
        Ok(false) => Err(CommandFailure::saying(format_args!(
            "the process group {group} was sent SIGKILL, but some of its processes are still there"
        ))),
        Err(error) => Err(CommandFailure::saying(format_args!("can't end the process group {group}: {error}"))),
    }
}

#[cfg(not(unix))]
fn end_command(holder: &Holder) -> Result<(), CommandFailure> {
    Err(command_runs_on(holder))
}
