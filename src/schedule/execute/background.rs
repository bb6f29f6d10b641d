//! A tick's background events: gated together, run by as many hands as they need, released together.
//!
//! One thread gates and releases, so that a store is asked once for up to a hundred events; it is the caller's own where
//! nothing is due in the foreground. It gates no more than there are hands for, because a lease runs down while its
//! event waits, and it runs nothing itself, so that no event waits for another that is slow.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::thread::{self, Scope};

use tracing::Span;

use super::foreground;
use crate::base::contain::contain;
use crate::hold::guard::release_together;
use crate::hold::held::Held;
use crate::observe::fault::Fault;
use crate::observe::log::tell;
use crate::observe::outcome::{Ended, RunOutcome};
use crate::observe::skip_reason::SkipReason;
use crate::schedule::gate::{self, BATCH_SIZE, Pass};
use crate::schedule::planned_run::Turn;
use crate::schedule::report::Entry;
use crate::store::event_mutex::EventMutex;
use crate::store::handle::StoreId;
use crate::task::run::Run;

use super::worker_pool::{Call, Desk, News};

/// Lets each turn be taken, the background ones beside the others; the entries are in the turns' order.
pub(crate) fn run_all(turns: &[Turn<'_>]) -> Vec<Entry> {
    let (background, foreground): (Vec<usize>, Vec<usize>) =
        (0..turns.len()).partition(|turn| turns[*turn].event.background);
    let entries = turns.iter().map(|_| OnceLock::new()).collect();
    let office = Office { turns, background, entries, desk: Desk::new(), tick: Span::current() };
    thread::scope(|scope| {
        let crew = Crew { scope, office: &office };
        let beside = !foreground.is_empty() && crew.start("soloist", Crew::gate_and_release);
        let mut entered = foreground.iter();
        foreground::run_all(foreground.iter().map(|turn| &turns[*turn]), |entry| {
            office.enter(*entered.next().expect("each turn has one entry"), entry);
        });
        if !beside {
            crew.gate_and_release();
        }
    });
    office.entries.into_iter().map(|entry| entry.into_inner().expect("every turn was taken")).collect()
}

/// What the threads of one tick share.
struct Office<'a> {
    turns: &'a [Turn<'a>],
    background: Vec<usize>,
    entries: Vec<OnceLock<Entry>>,
    desk: Desk<Admitted<'a>, Done<'a>>,
    tick: Span,
}

/// A turn that the gate let in.
struct Admitted<'a> {
    turn: usize,
    span: Span,
    pass: Pass<'a>,
}

/// A turn that was taken, but for its release; or nothing, if it was not let in after all, and is entered.
struct Done<'a>(Option<Ran<'a>>);

struct Ran<'a> {
    turn: usize,
    span: Span,
    outcome: RunOutcome,
    pass: Pass<'a>,
}

/// What is left of a turn when its lease is given back.
struct Taken {
    turn: usize,
    span: Span,
    outcome: RunOutcome,
}

impl<'a> Ran<'a> {
    fn apart(self) -> (Taken, Held<&'a dyn EventMutex, Run>) {
        let Self { turn, span, outcome, pass } = self;
        (Taken { turn, span, outcome }, pass.held)
    }
}

/// A turn that the gate did not let in.
struct Refused {
    turn: usize,
    span: Span,
    reason: SkipReason,
}

/// The threads of one tick.
#[derive(Clone, Copy)]
struct Crew<'scope, 'env, 'a> {
    scope: &'scope Scope<'scope, 'env>,
    office: &'scope Office<'a>,
}

impl<'scope> Crew<'scope, '_, '_> {
    /// Starts a thread, or says that there is none to be had.
    fn start(self, name: &str, work: impl FnOnce(Self) + Send + 'scope) -> bool {
        // A subscriber of `tracing` that panics does not keep a thread from what others wait for.
        let work = move || {
            let _in_span = contain(|| self.office.tick.enter());
            work(self);
        };
        let started = thread::Builder::new().name(name.into()).spawn_scoped(self.scope, work);
        if let Err(error) = &started {
            tell(format_args!("no thread for background events, so that they run on fewer: {error}"), || {
                tracing::warn!(target: "soloist", %error, "no thread for background events: they run on fewer");
            });
        }
        started.is_ok()
    }

    fn gate_and_release(self) {
        let Office { turns, background, desk, .. } = self.office;
        if let [alone] = **background {
            return self.office.enter(alone, turns[alone].take());
        }
        // While the store decides on the next hundred, another thread gives back what ended.
        if background.len() > BATCH_SIZE && self.start("soloist-release", Crew::release_what_ends) {
            desk.has_a_clearer();
        }
        let all = catch_unwind(AssertUnwindSafe(|| self.attend(by_store(turns, background))));
        // Whatever happened: the hands wait for it.
        desk.close();
        all.unwrap_or_else(|panic| resume_unwind(panic));
    }

    /// Puts turns on the desk as long as there are any, and clears away what has ended.
    fn attend(self, mut queues: VecDeque<VecDeque<usize>>) {
        let Office { desk, .. } = self.office;
        loop {
            match desk.wait(queues.front().map(|queue| queue.len().min(BATCH_SIZE))) {
                News::Room(room) => {
                    let queue = queues.front_mut().expect("there is room for what is in the first queue");
                    let (admitted, refused) = self.office.gate(queue, room);
                    if queue.is_empty() {
                        queues.pop_front();
                    }
                    self.call(desk.put(admitted));
                    for refused in refused {
                        self.office.refuse(refused);
                    }
                }
                News::Ended(done) => self.office.release(done),
                News::NoHandFor(admitted) => {
                    let done = self.office.run(admitted);
                    desk.done_without_a_hand();
                    self.office.release(vec![done]);
                }
                News::AllDone => return,
            }
        }
    }

    fn release_what_ends(self) {
        while let Some(done) = self.office.desk.wait_for_ends() {
            self.office.release(done);
        }
    }

    /// Takes one turn after another.
    fn lend_a_hand(self) {
        let mut done = None;
        while let Some((admitted, call)) = self.office.desk.exchange(done) {
            let _ = contain(|| self.call(call));
            done = Some(self.office.run(admitted));
        }
    }

    fn call(self, call: Call) {
        if call == Call::NewHand && !self.start("soloist-hand", Self::lend_a_hand) {
            self.office.desk.no_more_hands();
        }
    }
}

impl<'a> Office<'a> {
    /// Asks the filters of up to `most` turns, and the store, which these have in common, for all whose filters agree.
    fn gate(&self, queue: &mut VecDeque<usize>, most: usize) -> (Vec<Admitted<'a>>, Vec<Refused>) {
        let (mut admitted, mut refused) = (Vec::with_capacity(most), Vec::new());
        let mut agreed = Vec::with_capacity(most);
        while agreed.len() < most
            && let Some(turn) = queue.pop_front()
        {
            let span = self.turns[turn].span();
            match span.in_scope(|| gate::ask_filters(&self.turns[turn])) {
                Ok(()) => agreed.push((turn, span)),
                Err(reason) => refused.push(Refused { turn, span, reason }),
            }
        }
        let _still = agreed.first().map(|(turn, _)| self.turns[*turn].clock.stand_still());
        let (mut asking, mut admissions) = (Vec::with_capacity(agreed.len()), Vec::with_capacity(agreed.len()));
        for (turn, span) in agreed {
            match gate::admission(&self.turns[turn]) {
                Ok(Some(admission)) => {
                    asking.push((turn, span));
                    admissions.push(admission);
                }
                Ok(None) => admitted.push(Admitted { pass: gate::pass(&self.turns[turn], None), turn, span }),
                Err(reason) => refused.push(Refused { turn, span, reason }),
            }
        }
        let turns: Vec<_> = asking.iter().map(|(turn, _)| &self.turns[*turn]).collect();
        let mut asking = asking.into_iter();
        gate::decide_together(&turns, &admissions, |decision| {
            let (turn, span) = asking.next().expect("there are as many decisions as admissions");
            match decision {
                Err(reason) => refused.push(Refused { turn, span, reason }),
                Ok(pass) => admitted.push(Admitted { turn, span, pass }),
            }
        });
        (admitted, refused)
    }

    fn refuse(&self, Refused { turn, span, reason }: Refused) {
        self.enter(turn, span.in_scope(|| self.turns[turn].skip(reason)));
    }

    fn run(&self, Admitted { turn, span, pass }: Admitted<'a>) -> Done<'a> {
        let pass = match span.in_scope(|| gate::may_still_start(&self.turns[turn], pass)) {
            Ok(pass) => pass,
            Err(reason) => {
                self.refuse(Refused { turn, span, reason });
                return Done(None);
            }
        };
        // What panics here is nobody's task or hook: a subscriber of `tracing`. The others' runs go on.
        let outcome = contain(|| span.in_scope(|| self.turns[turn].perform(&pass)));
        let outcome = outcome.unwrap_or_else(|message| {
            RunOutcome::new(Ended::Faulted(Fault::Panicked(message)), pass.run().fencing_token())
        });
        Done(Some(Ran { turn, span, outcome, pass }))
    }

    /// Gives back what is held, at once for each store, and enters what became of each turn.
    fn release(&self, done: Vec<Done<'a>>) {
        let mut done: VecDeque<_> = done.into_iter().filter_map(|Done(ran)| ran).collect();
        while let Some(first) = done.front() {
            let Turn { store, .. } = self.turns[first.turn];
            let of_this_store = |done: &Ran<'_>| self.turns[done.turn].store.id == store.id;
            let (these, others) = done.into_iter().partition::<VecDeque<_>, _>(of_this_store);
            done = others;
            let (these, held): (Vec<_>, Vec<_>) = these.into_iter().map(Ran::apart).unzip();
            let released = release_together(&*store.mutex, held);
            if let Some(Taken { turn, .. }) = these.first() {
                let ran = these.iter().zip(&released).map(|(taken, (run, _))| (&taken.outcome, run));
                gate::give_back_claims(&self.turns[*turn], ran);
            }
            for (taken, released) in these.into_iter().zip(released) {
                let Taken { turn, span, outcome } = taken;
                self.enter(turn, span.in_scope(|| self.turns[turn].close(outcome, released)));
            }
        }
    }

    fn enter(&self, turn: usize, entry: Entry) {
        // A turn is taken once, so nothing was entered for it before.
        let _ = self.entries[turn].set(entry);
    }
}

/// Which turns ask the same store, in the order in which each store is first asked; those that ask none come first.
fn by_store(turns: &[Turn<'_>], of: &[usize]) -> VecDeque<VecDeque<usize>> {
    let mut queues = VecDeque::from([VecDeque::new()]);
    let mut queue_of: HashMap<StoreId, usize> = HashMap::new();
    for turn in of {
        let Turn { event, store, .. } = turns[*turn];
        let queue = if event.protection.is_some() { *queue_of.entry(store.id).or_insert(queues.len()) } else { 0 };
        if queue == queues.len() {
            queues.push_back(VecDeque::new());
        }
        queues[queue].push_back(*turn);
    }
    queues.retain(|queue| !queue.is_empty());
    queues
}
