//! The queue of an event as a model: an occurrence that meets a run waits for its turn, in one place of several.
//!
//! Each step of a server is one request, which the store carries out at once: what becomes of requests that are late or lost is
//! the other model's question. A server that crashes at any step holds what it held until its term ends, at any later time.
//! Where what waits replaces the run, that is asked to stop by its token, and the latest that waits is the one that runs.

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

const SERVERS: usize = 3;
const OCCURRENCES: usize = 3;
const MOST_PLACES: usize = 2;

/// One thing that is done wrong, so that the check has something to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueFlaw {
    /// A newcomer is admitted although somebody waits.
    NewcomersLookAtNoPlace,
    /// Whoever waits leaves its place before it asks for the run.
    LeavesItsPlaceFirst,
    /// A place is taken without saying for which occurrence.
    WaitsForNothingInParticular,
    /// No note says that somebody has waited.
    LeavesNoNote,
    /// Whoever runs is asked to stop, and not one run.
    CancelsWithoutAToken,
    /// An occurrence waits, though a later one does or had its turn.
    EarlierOnesWait,
}

#[derive(Clone, Copy, Debug)]
pub struct QueueModel {
    pub flaw: Option<QueueFlaw>,
    /// How many may wait.
    pub places: usize,
    /// Whether what waits asks the run to stop, and leaves when somebody comes behind it.
    pub replaces: bool,
    /// How many servers crash at most.
    pub crashes: u8,
}

pub const NOBODY_OVERTAKES: &str = "no newcomer is admitted while somebody waits";
pub const EACH_WAITS_ONCE: &str = "an occurrence is waited for by one server, and no more wait than there are places";
pub const STARTS_ONCE: &str = "an occurrence starts at most once";
pub const WHAT_WAITED_STARTS: &str =
    "what was waited for starts, unless its server crashed and another occurrence was due before somebody took it over";

pub const THE_LATEST_REPLACES: &str =
    "a run is asked to stop, and who waits leaves, for a later occurrence and for no other";

type Occurrence = u8;

/// Where a server is with the occurrence that it ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Step {
    /// It ticks this next.
    #[default]
    Tick,
    /// It met a run, or somebody who waits.
    Joins,
    /// It has its place, and leaves the note.
    Notes,
    Waits,
    Runs,
    /// It was granted the run, and leaves its place.
    LeavesPlace,
    Crashed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Member {
    /// The next that is due for it; those before are behind it.
    due: Occurrence,
    /// The one that it is at: that which is due, or one that it takes over.
    at: Occurrence,
    step: Step,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    members: [Member; SERVERS],
    crashes: u8,
    /// Who holds the lease, the place, and is the waiter of each occurrence.
    lease: Option<u8>,
    places: [Option<u8>; MOST_PLACES],
    waiters: [Option<u8>; OCCURRENCES],
    claimed: [bool; OCCURRENCES],
    noted: [bool; OCCURRENCES],
    /// Whether somebody has waited for it, and left a note if it should.
    waited: [bool; OCCURRENCES],
    started: [u8; OCCURRENCES],
    /// Whether the run of this occurrence is asked to stop, and whether it has seen that.
    cancelled: [bool; OCCURRENCES],
    told: [bool; OCCURRENCES],
    overtaken: bool,
    /// Somebody was asked to stop, or left, for one that is not later.
    gave_way_to_nobody: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The next step of this server.
    Steps(u8),
    /// Its keeper looks whether its run is asked to stop.
    Looks(u8),
    /// It finds the note of somebody who waits no more, and takes the occurrence over.
    TakesOver(u8, Occurrence),
    Crashes(u8),
    /// What a crashed server held has ended.
    TermsEnd(u8),
}

impl Model for QueueModel {
    type State = Queue;
    type Action = Move;

    fn init_states(&self) -> Vec<Queue> {
        vec![Queue { crashes: self.crashes, ..Queue::default() }]
    }

    fn actions(&self, queue: &Queue, moves: &mut Vec<Move>) {
        for me in 0..SERVERS {
            let member = queue.members[me];
            let number = u8::try_from(me).expect("they are few");
            match member.step {
                Step::Crashed if queue.holds_anything(number) => moves.push(Move::TermsEnd(number)),
                Step::Crashed => {}
                Step::Tick => {
                    if usize::from(member.due) < OCCURRENCES {
                        moves.push(Move::Steps(number));
                    }
                    // It looks for the latest.
                    let orphan = member.due.checked_sub(1).filter(|latest| queue.is_orphan(*latest));
                    moves.extend(orphan.map(|occurrence| Move::TakesOver(number, occurrence)));
                }
                Step::Runs if self.replaces => moves.extend([Move::Steps(number), Move::Looks(number)]),
                _ => moves.push(Move::Steps(number)),
            }
            if queue.crashes > 0 && member.step != Step::Crashed && member != Member::default() {
                moves.push(Move::Crashes(number));
            }
        }
    }

    fn next_state(&self, queue: &Queue, action: Move) -> Option<Queue> {
        let mut next = *queue;
        match action {
            Move::Steps(me) => next.step(me, self),
            Move::Looks(me) => next.look(me, self),
            Move::TakesOver(me, occurrence) => {
                next.members[usize::from(me)].at = occurrence;
                next.ask(me, self, true);
            }
            Move::Crashes(me) => {
                next.crashes -= 1;
                next.members[usize::from(me)].step = Step::Crashed;
            }
            Move::TermsEnd(me) => next.let_go(me),
        }
        (next != *queue).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOBODY_OVERTAKES, |_, queue: &Queue| !queue.overtaken),
            Property::always(THE_LATEST_REPLACES, |_, queue: &Queue| !queue.gave_way_to_nobody),
            Property::always(EACH_WAITS_ONCE, |model, queue: &Queue| queue.each_waits_once(model)),
            Property::always(STARTS_ONCE, |_, queue: &Queue| queue.started.iter().all(|started| *started <= 1)),
            Property::always(WHAT_WAITED_STARTS, |model, queue: &Queue| {
                let mut moves = Vec::new();
                model.actions(queue, &mut moves);
                let is_over = moves.is_empty() || moves.iter().all(|action| model.next_state(queue, *action).is_none());
                !is_over || !queue.has_lost_any(model)
            }),
            Property::sometimes("something waits, and starts", |_, queue: &Queue| {
                (0..OCCURRENCES).any(|at| queue.waited[at] && queue.started[at] == 1)
            }),
            Property::sometimes("a queue is full", |_, queue: &Queue| {
                queue.is_occupied() && queue.members.iter().any(|member| member.step == Step::Joins)
            }),
            Property::sometimes("as many wait as may", |model: &Self, queue: &Queue| {
                queue.waiting().count() == model.places
            }),
            Property::sometimes("a run is told to stop, if it may be", |model: &Self, queue: &Queue| {
                !model.replaces || queue.told.contains(&true)
            }),
        ]
    }
}

impl Queue {
    /// The servers that live and wait.
    fn waiting(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| matches!(member.step, Step::Notes | Step::Waits))
    }

    fn each_waits_once(&self, model: &QueueModel) -> bool {
        let mut at: Vec<Occurrence> = self.waiting().map(|member| member.at).collect();
        at.sort_unstable();
        at.windows(2).all(|two| two[0] != two[1]) && at.len() <= model.places
    }

    fn is_occupied(&self) -> bool {
        self.places.iter().any(Option::is_some)
    }

    fn holds_anything(&self, me: u8) -> bool {
        self.places.iter().chain(&self.waiters).chain([&self.lease]).any(|held| *held == Some(me))
    }

    fn let_go(&mut self, me: u8) {
        self.lease.take_if(|holder| *holder == me);
        self.leave_place(me);
    }

    /// Somebody has waited for it, and nobody does any more.
    fn is_orphan(&self, occurrence: Occurrence) -> bool {
        let at = usize::from(occurrence);
        self.noted[at] && !self.claimed[at] && self.waiters[at].is_none()
    }

    /// Whether one that was waited for was granted to nobody. After a crash, only the latest is sure to be.
    fn has_lost_any(&self, model: &QueueModel) -> bool {
        let first = if self.crashes < model.crashes { OCCURRENCES - 1 } else { 0 };
        (first..OCCURRENCES).any(|at| self.waited[at] && !self.claimed[at])
    }

    fn step(&mut self, me: u8, model: &QueueModel) {
        let member = self.members[usize::from(me)];
        match member.step {
            Step::Tick => {
                self.members[usize::from(me)].at = member.due;
                self.ask(me, model, true);
            }
            Step::Joins => self.join(me, model),
            Step::Notes => {
                self.waited[usize::from(member.at)] = true;
                self.noted[usize::from(member.at)] = model.flaw != Some(QueueFlaw::LeavesNoNote);
                if model.flaw == Some(QueueFlaw::LeavesItsPlaceFirst) {
                    self.leave_place(me);
                }
                self.go(me, Step::Waits);
            }
            Step::Waits if model.replaces && self.behind(me).is_some() => {
                let behind = self.behind(me).expect("somebody is");
                let newer = self.members[usize::from(behind)];
                // It may have crashed since, or be on its way out.
                self.gave_way_to_nobody |= newer.step != Step::Crashed && newer.at < member.at;
                self.claimed[usize::from(member.at)] = true;
                self.leave_place(me);
                self.is_done(me);
            }
            Step::Waits => match self.places.iter().position(|holder| *holder == Some(me)) {
                Some(behind) if behind > 0 => {
                    if self.places[behind - 1].is_none() {
                        self.places.swap(behind - 1, behind);
                    }
                }
                _ => self.ask(me, model, false),
            },
            Step::LeavesPlace => {
                self.leave_place(me);
                self.go(me, Step::Runs);
            }
            Step::Runs => {
                self.let_go(me);
                self.is_done(me);
            }
            Step::Crashed => {}
        }
    }

    /// Who has a place behind this server's.
    fn behind(&self, me: u8) -> Option<u8> {
        let mine = self.places.iter().position(|holder| *holder == Some(me))?;
        self.places[mine + 1..].iter().flatten().next().copied()
    }

    /// The keeper of a run looks for what asks it to stop.
    fn look(&mut self, me: u8, model: &QueueModel) {
        let at = usize::from(self.members[usize::from(me)].at);
        let is_meant = self.cancelled[at];
        let is_told =
            if model.flaw == Some(QueueFlaw::CancelsWithoutAToken) { self.cancelled.contains(&true) } else { is_meant };
        self.gave_way_to_nobody |= is_told && !is_meant;
        self.told[at] |= is_told;
    }

    /// Asks the run that is in the way to stop.
    fn cancel_run(&mut self, me: u8) {
        let Some(runs) = self.lease.map(|holder| self.members[usize::from(holder)].at) else { return };
        self.gave_way_to_nobody |= self.members[usize::from(me)].at <= runs;
        self.cancelled[usize::from(runs)] = true;
    }

    fn go(&mut self, me: u8, step: Step) {
        self.members[usize::from(me)].step = step;
    }

    /// Goes on to the next that is due, if it was at that which is.
    fn is_done(&mut self, me: u8) {
        let member = &mut self.members[usize::from(me)];
        member.due += u8::from(member.at == member.due);
        member.step = Step::Tick;
    }

    fn leave_place(&mut self, me: u8) {
        for held in self.places.iter_mut().chain(&mut self.waiters) {
            held.take_if(|holder| *holder == me);
        }
    }

    /// Asks for lease and claim together; a newcomer unless somebody has the place.
    fn ask(&mut self, me: u8, model: &QueueModel, is_new: bool) {
        let at = usize::from(self.members[usize::from(me)].at);
        let looks = is_new && model.flaw != Some(QueueFlaw::NewcomersLookAtNoPlace);
        if looks && self.is_occupied() {
            self.go(me, Step::Joins);
        } else if self.claimed[at] {
            self.leave_place(me);
            self.is_done(me);
        } else if self.lease.is_some() {
            if model.replaces && !is_new {
                self.cancel_run(me);
            }
            self.go(me, if is_new { Step::Joins } else { Step::Waits });
        } else {
            self.overtaken |= is_new && self.waiting().next().is_some();
            self.lease = Some(me);
            self.claimed[at] = true;
            self.started[at] += 1;
            self.go(me, if is_new { Step::Runs } else { Step::LeavesPlace });
        }
    }

    /// Takes the place, and is the waiter of its occurrence; both or neither.
    fn join(&mut self, me: u8, model: &QueueModel) {
        let at = usize::from(self.members[usize::from(me)].at);
        let last = model.places - 1;
        let looks = model.replaces && model.flaw != Some(QueueFlaw::EarlierOnesWait);
        let is_late = looks && (at + 1..OCCURRENCES).any(|later| self.waiters[later].is_some() || self.claimed[later]);
        if is_late || self.waiters[at].is_some() || self.places[last].is_some() {
            return self.is_done(me);
        }
        self.places[last] = Some(me);
        if model.flaw != Some(QueueFlaw::WaitsForNothingInParticular) {
            self.waiters[at] = Some(me);
        }
        self.go(me, Step::Notes);
    }
}

/// Every promise holds in every state that can be reached, and all that should happen somewhere does.
#[track_caller]
pub fn queue_holds(model: QueueModel) {
    let checked = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{model:?}: {} states", checked.unique_state_count());
    let found = checked.discoveries();
    for property in model.properties() {
        let path = found.get(property.name).map(|path| path.clone().into_actions());
        let is_as_it_should = (property.expectation == Expectation::Always) == path.is_none();
        assert!(is_as_it_should, "{}: {path:?}", property.name);
    }
}

/// What is wrong with the model breaks this promise, and is found.
#[track_caller]
pub fn queue_breaks(model: QueueModel, promise: &'static str) {
    let checked = model.checker().spawn_bfs().join();
    let path = checked.discovery(promise).map(stateright::Path::into_actions);
    println!(
        "{model:?} breaks {promise:?} by {:?}",
        path.unwrap_or_else(|| panic!("not found: {model:?} breaks {promise:?}"))
    );
}
