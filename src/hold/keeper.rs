//! Keeps the leases that this process has in hand: renews them while their tasks run, notices the lost ones, and lets go of
//! all when the process ends.
//!
//! Each store has a keeper of its own, so that an outage of one delays no renewal in another, and asks it on connections
//! that no gate waits for. Its thread is there while something is in hand.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

#[cfg(unix)]
use super::process_exit;
use super::sync;
use super::tenure::Tenure;
use crate::base::contain::contain;
use crate::base::error::{Chain, MutexError, Named};
use crate::base::escape::OneLine;
use crate::base::process;
use crate::lease::holder::Holder;
use crate::lease::request::Lease;
use crate::lease::term::Renewal;
use crate::observe::log::{aside, tell};
use crate::store::event_mutex::{Answers, Scope};
use crate::store::handle::{Store, StoreId};
use crate::task::run::Run;
use crate::time::clock::waiting::{Waiting, Wake};
use crate::time::clock::{Clock, Moment, Rfc3339};

mod exit_release;
mod handles;
mod plan;
pub(crate) mod watch;

use handles::Handles;
use plan::{Batch, Errand, Plan};
use watch::{Need, Watch};

/// How long a task may take to stop before that is told.
const TOLD_OF_AFTER: Duration = Duration::from_secs(5);

/// The keeper of one store, on one clock, in one process.
pub(crate) struct Keeper {
    handles: Handles,
    scope: Scope,
    clock: Clock,
    watch: Watch<Plan>,
}

/// All keepers of this process, and those of the one that it was forked from.
pub(super) static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// A keeper, if somebody has it, and of what it is the keeper.
pub(super) struct Known {
    store: StoreId,
    clock: Clock,
    /// The other side of a `fork` has no thread, and needs a keeper of its own.
    pub(super) pid: u32,
    pub(super) keeper: Weak<Keeper>,
}

impl Keeper {
    /// The keeper of this store. It lives as long as somebody has it, which whoever holds a lease does.
    pub(crate) fn of(store: &Store, clock: &Clock) -> Arc<Self> {
        let pid = process::id();
        let is_it = |known: &&Known| known.store == store.id && known.clock.is_same(clock) && known.pid == pid;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(is_it).find_map(|known| known.keeper.upgrade()).unwrap_or_else(|| {
            let handles = Handles::of(&store.mutex);
            let (clock, watch) = (clock.clone(), Watch::new(Plan::default()));
            let keeper = Arc::new(Self { handles, scope: store.scope, clock: clock.clone(), watch });
            known.retain(|known| known.keeper.strong_count() > 0);
            known.push(Known { store: store.id, clock, pid, keeper: Arc::downgrade(&keeper) });
            keeper
        })
    }

    /// Keeps a lease that was just granted by `store`, of which this is the keeper, and renews it until it ends, unless its
    /// term is fixed.
    ///
    /// # Errors
    ///
    /// Who in this process holds the name still: the store has lost its memory, or it would not have granted it again.
    #[inline]
    pub(crate) fn keep(
        self: &Arc<Self>,
        store: &Store,
        tenure: &Arc<Tenure>,
        renewal: Renewal,
    ) -> Result<(), Option<Holder>> {
        let Some(lease) = tenure.lease() else { return Ok(()) };
        if !self.handles.begin_with(&store.mutex) {
            self.handles.note(&store.mutex);
        }
        // What is in the memory of this process is lost with the leases in hand.
        let may_forget = self.scope != Scope::Process && renewal == Renewal::WhileItRuns;
        let (kept, need) = self.watch.change(|plan| {
            let now = tenure.began();
            match if may_forget { plan.holder(lease.name(), now) } else { None } {
                // Whoever holds it is told without waiting for its turn.
                Some(holder) => (Err(holder.holder()), Some(plan.doubt(lease.name(), now))),
                None => (Ok(()), Some(plan.keep(tenure, lease, renewal))),
            }
        });
        if need == Need::Thread {
            self.start();
        }
        kept
    }

    /// Tells of a task that is still at work when it has gone on for a while after its timeout.
    pub(crate) fn expect_end(self: &Arc<Self>, run: &Run, timeout: Moment) {
        let overdue = timeout.plus(TOLD_OF_AFTER);
        if let ((), Need::Thread) = self.watch.change(|plan| (plan.expect_end(run, overdue), Some(overdue))) {
            self.start();
        }
    }

    /// The task of this run has ended.
    pub(crate) fn has_ended(&self, run: &Run) {
        let ((), _) = self.watch.change(|plan| (plan.has_ended(run), None));
    }

    /// Rings the bell of its thread, with this word.
    #[cfg(unix)]
    pub(super) fn call(&self, said: usize) {
        self.watch.call(said);
    }

    /// Waits until the thread has answered to that.
    #[cfg(unix)]
    pub(super) fn wait_until_heeded(&self, waiting: &Waiting, enough: Moment) {
        self.watch.wait_until_heeded(waiting, enough);
    }

    #[cold]
    fn start(self: &Arc<Self>) {
        #[cfg(unix)]
        process_exit::expect_exit();
        let keeper = Arc::clone(self);
        let carry_out = |keeper: &Self, errand: &Errand| match errand {
            Errand::Renew(batch) => keeper.renew(batch),
            Errand::Part(farewell) => {
                if let Some(mutex) = keeper.handles.any() {
                    farewell.say_to(&*mutex, &keeper.clock);
                }
                Answers::new()
            }
            Errand::TellOfOverdue(runs) => {
                // What it waits for, all renewals would wait for.
                let runs = runs.clone();
                aside(move || runs.iter().for_each(tell_of_overdue));
                Answers::new()
            }
            Errand::TellOfLost(tenures) => {
                for tenure in tenures {
                    tenure.tell_of_its_loss();
                }
                Answers::new()
            }
        };
        // From here on time waits for the thread, where a test moves it.
        let waiting = self.clock.waiting(self);
        waiting.is_needed();
        let attend = move || keeper.watch.attend(waiting, |errand| carry_out(&keeper, errand));
        if let Err(error) = thread::Builder::new().name("soloist-keeper".into()).spawn(attend) {
            self.watch.is_unattended();
            tell(format_args!("no thread for renewals, so that leases end with their terms: {error}"), || {
                tracing::warn!(target: "soloist", %error, "no thread for renewals: leases end with their terms");
            });
        }
    }

    fn renew(&self, batch: &Batch) -> Answers<bool> {
        let leases = batch.leases();
        // Whoever holds a lease has a handle; who has none is gone without giving it back.
        let Some(mutex) = self.handles.any() else { return leases.iter().map(|_| Ok(false)).collect() };
        let failed = |error: &MutexError| leases.iter().map(|_| Err(error.clone())).collect();
        let answers = match contain(|| mutex.extend(&leases, batch.term)) {
            Ok(answers) if answers.len() == leases.len() => answers,
            Ok(answers) => {
                let count = format!("the store gave {} answers to {} leases", answers.len(), leases.len());
                failed(&MutexError::unusable(attempted(&leases), count))
            }
            Err(message) => failed(&MutexError::panicked(attempted(&leases), &message)),
        };
        if let Some(error) = answers.iter().find_map(|answer| answer.as_ref().err()) {
            let failures = answers.iter().filter(|answer| answer.is_err()).count();
            let _ = contain(|| {
                tracing::warn!(target: "soloist", leases = failures, error = %OneLine(Chain(error)), "not renewed yet");
            });
        }
        answers
    }
}

impl Wake for Keeper {
    fn wake(&self) {
        self.watch.ring();
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("store", &self.handles.any()).finish_non_exhaustive()
    }
}

fn tell_of_overdue(run: &Run) {
    let (event, occurrence) = (run.name(), Rfc3339(run.occurrence()));
    tell(format_args!("{}: timed out and does not stop, in its run of {occurrence}", Named(event)), || {
        tracing::warn!(target: "soloist", event, %occurrence, "timed out and does not stop");
    });
}

/// What is attempted with these, as errors say it.
fn attempted(leases: &[Lease]) -> String {
    match leases {
        [lease] => format!("extend {}", lease.name()),
        _ => format!("extend {} leases", leases.len()),
    }
}

/// The keepers that one tick needs. The first is at hand for all that follow; a tick mostly has one store.
#[derive(Default)]
pub(crate) struct Keepers {
    first: OnceLock<(StoreId, Arc<Keeper>)>,
}

impl Keepers {
    /// Lets `speak` speak to the keeper of this store.
    #[inline]
    pub(crate) fn with<T>(&self, store: &Store, clock: &Clock, speak: impl FnOnce(&Arc<Keeper>) -> T) -> T {
        let (first, keeper) = self.first.get_or_init(|| (store.id, Keeper::of(store, clock)));
        if *first == store.id { speak(keeper) } else { speak(&Keeper::of(store, clock)) }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::hold::keeper::watch::{Duty, Step};

    struct Broken;

    impl Duty for Broken {
        type Errand = ();
        type Answer = ();

        fn step(&mut self, _: Moment) -> Step<()> {
            panic!("it can't go on")
        }

        fn hear(&mut self, _: usize) {}

        fn done(&mut self, (): &(), (): (), _: Moment) {}
    }

    #[test]
    fn a_thread_that_panicked_is_missed() {
        let watch = Watch::new(Broken);
        let due = |_: &mut Broken| ((), Some(Moment::BEGINNING));
        assert_eq!(watch.change(due).1, Need::Thread);
        assert_eq!(watch.change(due).1, Need::Nobody, "there is one");
        catch_unwind(AssertUnwindSafe(|| watch.attend(Waiting::on_the_machine(), |()| ()))).unwrap_err();
        assert_eq!(watch.change(due).1, Need::Thread);
    }
}
