//! Frees a lease: asks its holder to stop, and waits until it has. By force only if that is said.

use std::thread;
use std::time::Duration;

use clap::ArgMatches;

use super::answer::{Answered, CommandAnswer, CommandFailure, FAILED, say};
use super::arguments::{duration_of, text};
use crate::base::error::MutexError;
use crate::base::escape::OneLine;
use crate::lease::holder::{Holder, this_host};
use crate::lease::name::{MutexName, UNLOCK};
use crate::lease::{request::LeaseRequest, term::Term};
use crate::store::event_mutex::{EventMutex, admission::Admission, broken_lease::Broken, held::Held, held::Names};
#[cfg(unix)]
use crate::task::process_group::end_group;
use crate::time::clock::{Clock, shown::HumanDuration};

/// How long a command that is ended may take to stop after SIGTERM.
#[cfg(unix)]
const GRACE: Duration = Duration::from_secs(5);

/// How long after the end of a command its lease is free at the latest.
const SETTLING: Duration = Duration::from_secs(5);

/// Between two looks at a store.
const PAUSE: Duration = Duration::from_millis(300);

pub(super) fn unlock(store: &dyn EventMutex, arguments: &ArgMatches) -> Answered {
    let name = MutexName::lease(text(arguments, "name")).map_err(|error| CommandFailure::usage(&error))?;
    let wait = duration_of(arguments, "wait").unwrap_or_default();
    let shown = OneLine(name.mutex());
    if arguments.get_flag("force") {
        return force(store, &name);
    }
    let Some(holder) = holder(store, &name)? else {
        return Ok(CommandAnswer::text(format!("{shown} is free: nobody holds it")).with_code(FAILED));
    };
    say(format_args!("{shown} is held by {holder}"));
    if !holder.has_ended() {
        ask_to_stop(store, &name, &holder, wait)
    } else if arguments.get_flag("kill") {
        end_command(&holder)?;
        wait_until_free(store, &name, &holder, SETTLING)?
            .map_or_else(|| Ok(freed(&name)), |now| Err(command_runs_on(&now)))
    } else {
        Err(command_runs_on(&holder))
    }
}

/// Who holds it.
fn holder(store: &dyn EventMutex, name: &MutexName) -> Result<Option<Holder>, CommandFailure> {
    match store.held(Names::Exactly(name)) {
        Ok(held) => match held.into_iter().next() {
            None => Ok(None),
            Some(held) => held.into_holder().map(Some).ok_or_else(unknown_holder),
        },
        Err(error) if error.is_unsupported() => Err(unknown_holder()),
        Err(error) => Err(error.into()),
    }
}

fn unknown_holder() -> CommandFailure {
    CommandFailure::saying(
        "the store does not tell who holds it, so that nobody can be asked to stop; `--force` frees it",
    )
}

/// The holder looks for this whenever it renews its lease, and cancels its run.
fn ask_to_stop(store: &dyn EventMutex, name: &MutexName, holder: &Holder, wait: Duration) -> Answered {
    let clock = Clock::system();
    let term = Term::new(wait.max(Term::MIN.get())).map_err(|error| CommandFailure::usage(&error))?;
    let request = LeaseRequest::new(name.request_to_stop(holder.token()), term, &clock).because(UNLOCK);
    // If it is there already, another operator asks for the same.
    Admission::claim_only(request).ask(store)?;
    say(format_args!(
        "it is asked to stop, which a run sees when it next renews its lease; waiting for {}",
        HumanDuration(wait)
    ));
    let Some(now) = wait_until_free(store, name, holder, wait)? else { return Ok(freed(name)) };
    if now.has_ended() {
        return Err(command_runs_on(&now));
    }
    let left = (now.until() - clock.now()).to_std().unwrap_or_default();
    Err(CommandFailure::saying(format_args!(
        "it has not stopped. A function stops only if it looks for its cancellation; a lease for a fixed term, a lease guard, and \
         a lease that only rests can't be asked. It lasts for {} more, unless it is renewed. `--force` frees it at once, although \
         its holder may still be at work",
        HumanDuration(left)
    )))
}

/// Waits until this holder holds it no longer: `None`. Somebody else may hold it then. Otherwise the holder, as it is now. It
/// waits no longer for one that has ended, and whose command goes on.
fn wait_until_free(
    store: &dyn EventMutex,
    name: &MutexName,
    holder: &Holder,
    wait: Duration,
) -> Result<Option<Holder>, MutexError> {
    let clock = Clock::system();
    let enough = clock.moment().plus(wait);
    loop {
        let held = store.held(Names::Exactly(name))?.into_iter().filter_map(Held::into_holder);
        let Some(now) = held.into_iter().find(|now| now.owner() == holder.owner()) else { return Ok(None) };
        let left = enough.since(clock.moment());
        if left.is_zero() || (now.has_ended() && !holder.has_ended()) {
            return Ok(Some(now));
        }
        thread::sleep(left.min(PAUSE)); // between two looks at a store
    }
}

fn force(store: &dyn EventMutex, name: &MutexName) -> Answered {
    let shown = OneLine(name.mutex());
    Ok(match store.break_lease(name)? {
        Broken::NotHeld => CommandAnswer::text(format!("{shown} is free: nobody held it")).with_code(FAILED),
        _ => CommandAnswer::text(format!(
            "{shown} is free; whoever held it learns of that when it next renews its lease"
        )),
    })
}

fn freed(name: &MutexName) -> CommandAnswer {
    CommandAnswer::text(format!("{} is free", OneLine(name.mutex())))
}

/// A command whose scheduler has gone keeps its lease until it has ended. Nobody renews it, and nobody else ends it.
fn command_runs_on(holder: &Holder) -> CommandFailure {
    let is_here = holder.host() == &*this_host();
    CommandFailure::saying(match holder.process_group() {
        Some(group) if is_here => format!("its command still runs as process group {group}: `--kill` ends it"),
        Some(group) => {
            format!("its command still runs on {} as process group {group}: end it there", OneLine(holder.host()))
        }
        None => {
            "what it started still runs, and keeps a file of the store open: find it with `fuser DIR/*.life`".to_owned()
        }
    })
}

#[cfg(unix)]
fn end_command(holder: &Holder) -> Result<(), CommandFailure> {
    let group = holder.process_group().filter(|_| holder.host() == &*this_host());
    let group = group.ok_or_else(|| command_runs_on(holder))?;
    match end_group(group, GRACE) {
        Ok(_) => Ok(()),
        Err(error) => Err(CommandFailure::saying(format_args!("can't end the process group {group}: {error}"))),
    }
}

#[cfg(not(unix))]
fn end_command(holder: &Holder) -> Result<(), CommandFailure> {
    Err(command_runs_on(holder))
}
