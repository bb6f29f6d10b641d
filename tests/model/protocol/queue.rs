//! A model of the queue of an event: an occurrence that meets a run waits, in one of several places.
//!
//! The waiters' order is that of the tokens of their places, so that any free place will do.
//!
//! Each step of a server is one request, which the store carries out at once; the other model has late and lost
//! requests. A server that crashes at any step keeps its leases until their term ends, at any later time. In a
//! queue that replaces the run, the waiter cancels the run by its token, and the latest waiter is the one to run:
//! each holder names its occurrence. A server that was refused because its occurrence waits elsewhere takes it
//! over if the waiter dies.

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

const SERVERS: usize = 4;
const OCCURRENCES: usize = 4;
const MOST_PLACES: usize = 3;

/// A flaw of the model, which the check must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueFlaw {
    /// A newcomer is admitted although others wait.
    NewcomersLookAtNoPlace,
    /// A newcomer asks for the last place, and moves up from there.
    TakesTheLastPlace,
    /// The first place comes first, regardless of the waiters' tokens.
    CountsPlaces,
    /// A waiter leaves its place before it requests the run.
    LeavesItsPlaceFirst,
    /// A place is taken without the name of its occurrence.
    WaitsForNothingInParticular,
    /// A server that was refused because its occurrence waits does not check whether the waiter lives.
    LooksForNoWaiter,
    /// Each run is asked to stop, and not a certain one.
    CancelsWithoutAToken,
    /// A waiter does not compare its occurrence with those of the others and of the run.
    LooksAtNoOccurrence,
}

/// The occurrences that each server ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticks {
    /// Three servers tick all of three.
    All,
    /// Each of four servers ticks one of four, like processes that cron starts: no other takes over the occurrence
    /// of a dead waiter.
    OneEach,
}

#[derive(Clone, Copy, Debug)]
pub struct QueueModel {
    pub flaw: Option<QueueFlaw>,
    pub ticks: Ticks,
    /// How many may wait.
    pub places: usize,
    /// Whether a waiter cancels the run, and leaves when a later one comes.
    pub replaces: bool,
    /// How many servers crash at most.
    pub crashes: u8,
}

pub const NOBODY_OVERTAKES: &str = "no newcomer is admitted while somebody waits";
pub const IN_THEIR_ORDER: &str = "those who wait start in the order in which they began to";
pub const FULL_IS_FULL: &str = "a queue is full only while all its places are held";
pub const EACH_WAITS_ONCE: &str = "an occurrence is waited for by one server, and no more wait than there are places";
pub const STARTS_ONCE: &str = "an occurrence starts at most once";
pub const WHAT_WAITED_STARTS: &str = "what was waited for starts, unless its server crashed and none was refused for it, or the next was due before one took it over";

pub const THE_LATEST_REPLACES: &str =
    "a run is asked to stop, and who waits leaves, for a later occurrence and for no other";

type Occurrence = u8;

/// The progress of a server with the occurrence that it ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Step {
    /// The next step is this tick.
    #[default]
    Tick,
    /// The server met a run, or a waiter, and reads the places.
    Reads,
    /// The server requests one of the places that were free.
    Joins,
    /// The server reads the waiters before it. If it replaces a run, it requests the run unless another server
    /// waits.
    Waits,
    /// Another one waits, so that it reads whether that came later.
    GivesWay,
    /// The server is the first waiter, and requests the run.
    Asks,
    Runs,
    /// The server was granted the run, and leaves its place.
    LeavesPlace,
    Crashed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Member {
    /// The next due occurrence of this server; earlier ones are done.
    due: Occurrence,
    /// The occurrence in hand: the due one, or another that was taken over.
    at: Occurrence,
    step: Step,
    /// The refused occurrence: a waiter has it.
    queued: Option<Occurrence>,
    /// The places that were free when it read them; or the places that exclude its request.
    free: [bool; MOST_PLACES],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    members: [Member; SERVERS],
    crashes: u8,
    /// The holders of the lease, of the places, and of each occurrence's waiter.
    lease: Option<u8>,
    places: [Option<u8>; MOST_PLACES],
    /// The holders of places, in the order of their tokens.
    line: [Option<u8>; MOST_PLACES],
    waiters: [Option<u8>; OCCURRENCES],
    claimed: [bool; OCCURRENCES],
    /// Whether it has waited.
    waited: [bool; OCCURRENCES],
    started: [u8; OCCURRENCES],
    /// Whether the run of this occurrence is asked to stop, and whether it has seen that.
    cancelled: [bool; OCCURRENCES],
    notified: [bool; OCCURRENCES],
    overtaken: bool,
    out_of_order: bool,
    refused_without_need: bool,
    /// A run was cancelled, or a waiter left, for an occurrence that is not later.
    gave_way_wrongly: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The next step of this server.
    Steps(u8),
    /// The server requests this place.
    Joins(u8, usize),
    /// The renewal thread of a server reads whether its run is cancelled.
    Looks(u8),
    /// The server was refused because this occurrence waits, finds no waiter any more, and takes it over.
    TakesOver(u8, Occurrence),
    Crashes(u8),
    /// The leases of a crashed server end.
    TermsEnd(u8),
}

impl Model for QueueModel {
    type State = Queue;
    type Action = Move;

    fn init_states(&self) -> Vec<Queue> {
        let mut queue = Queue { crashes: self.crashes, ..Queue::default() };
        if self.ticks == Ticks::OneEach {
            (0..).zip(&mut queue.members).for_each(|(due, member)| member.due = due);
        }
        vec![queue]
    }

    fn actions(&self, queue: &Queue, moves: &mut Vec<Move>) {
        for me in 0..self.count() {
            let member = queue.members[me];
            let number = u8::try_from(me).expect("they are few");
            match member.step {
                Step::Crashed if queue.holds_anything(number) => moves.push(Move::TermsEnd(number)),
                Step::Crashed => {}
                Step::Tick => {
                    // Servers are alike: of those that have not ticked yet, the first ticks first.
                    let is_next = member != Member::default() || me == 0 || queue.members[me - 1] != Member::default();
                    let is_next = is_next || self.ticks == Ticks::OneEach;
                    if is_next && usize::from(member.due) < self.count() {
                        moves.push(Move::Steps(number));
                    }
                    // The latest refused occurrence.
                    let latest = member.due.checked_sub(1).filter(|latest| member.queued == Some(*latest));
                    let orphan = latest
                        .filter(|latest| queue.is_orphan(*latest) && self.flaw != Some(QueueFlaw::LooksForNoWaiter));
                    moves.extend(orphan.map(|occurrence| Move::TakesOver(number, occurrence)));
                }
                Step::Joins => moves.extend(self.wanted(&member).map(|place| Move::Joins(number, place))),
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
            Move::Joins(me, place) => next.join(me, place, self),
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
        if next == *queue {
            return None;
        }
        next.number_anew(self);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOBODY_OVERTAKES, |_, queue: &Queue| !queue.overtaken),
            Property::always(IN_THEIR_ORDER, |_, queue: &Queue| !queue.out_of_order),
            Property::always(FULL_IS_FULL, |_, queue: &Queue| !queue.refused_without_need),
            Property::always(THE_LATEST_REPLACES, |_, queue: &Queue| !queue.gave_way_wrongly),
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
            Property::sometimes("a queue is full", |model: &Self, queue: &Queue| {
                // If each server ticks one occurrence, no server is left to notice.
                let is_found = queue.members.iter().any(|member| member.step == Step::Reads);
                queue.is_full(model) && (is_found || model.ticks == Ticks::OneEach)
            }),
            Property::sometimes("as many wait as may", |model: &Self, queue: &Queue| {
                queue.waiting().count() == model.places
            }),
            Property::sometimes("a run is told to stop, if it may be", |model: &Self, queue: &Queue| {
                !model.replaces || queue.notified.contains(&true)
            }),
        ]
    }
}

impl QueueModel {
    /// Returns how many servers there are, and occurrences.
    fn count(self) -> usize {
        if self.ticks == Ticks::All { OCCURRENCES - 1 } else { OCCURRENCES }
    }

    /// Returns the places that a newcomer may request.
    fn wanted(self, member: &Member) -> impl Iterator<Item = usize> + use<> {
        let (free, first) = (member.free, if self.takes_the_last_place() { self.places - 1 } else { 0 });
        (first..self.places).filter(move |place| free[*place])
    }

    fn takes_the_last_place(self) -> bool {
        self.flaw == Some(QueueFlaw::TakesTheLastPlace)
    }
}

impl Queue {
    /// Numbers the servers in the order of their states, if they are alike, and the places in the order of their tokens,
    /// unless their numbers count: most states that differ in these numbers only become one state.
    fn number_anew(&mut self, model: &QueueModel) {
        if model.ticks == Ticks::All {
            let holds = |held: Option<u8>, me: &u8| held == Some(*me);
            let mut order = [0, 1, 2, 3];
            order[..model.count()].sort_by_key(|me| {
                let held = (self.line.map(|held| holds(held, me)), self.waiters.map(|held| holds(held, me)));
                (self.members[usize::from(*me)], holds(self.lease, me), held)
            });
            self.members = order.map(|me| self.members[usize::from(me)]);
            for held in self.places.iter_mut().chain(&mut self.line).chain(&mut self.waiters).chain([&mut self.lease]) {
                *held = held.and_then(|me| (0..).zip(order).find_map(|(new, old)| (old == me).then_some(new)));
            }
        }
        if !matches!(model.flaw, Some(QueueFlaw::CountsPlaces | QueueFlaw::TakesTheLastPlace)) {
            let mut order = [0, 1, 2];
            order[..model.places].sort_by_key(|place| {
                let turn = self.places[*place].and_then(|me| self.line.iter().position(|holder| *holder == Some(me)));
                (turn, self.members.map(|member| member.free[*place]))
            });
            self.places = order.map(|place| self.places[place]);
            for member in &mut self.members {
                member.free = order.map(|place| member.free[place]);
            }
        }
    }

    /// Returns the servers that live and wait.
    fn waiting(&self) -> impl Iterator<Item = &Member> {
        let waits = |step| matches!(step, Step::Waits | Step::GivesWay | Step::Asks);
        self.members.iter().filter(move |member| waits(member.step))
    }

    fn each_waits_once(&self, model: &QueueModel) -> bool {
        let mut at: Vec<Occurrence> = self.waiting().map(|member| member.at).collect();
        at.sort_unstable();
        at.windows(2).all(|two| two[0] != two[1]) && at.len() <= model.places
    }

    fn is_occupied(&self) -> bool {
        self.places.iter().any(Option::is_some)
    }

    fn is_full(&self, model: &QueueModel) -> bool {
        self.places[..model.places].iter().all(Option::is_some)
    }

    /// Returns the free places.
    fn free(&self, model: &QueueModel) -> [bool; MOST_PLACES] {
        let mut free = self.places.map(|holder| holder.is_none());
        free[model.places..].fill(false);
        free
    }

    fn holds_anything(&self, me: u8) -> bool {
        self.places.iter().chain(&self.waiters).chain([&self.lease]).any(|held| *held == Some(me))
    }

    fn let_go(&mut self, me: u8) {
        self.lease.take_if(|holder| *holder == me);
        self.leave_place(me);
    }

    /// Returns whether its waiter has gone, and nothing was granted.
    fn is_orphan(&self, occurrence: Occurrence) -> bool {
        let at = usize::from(occurrence);
        !self.claimed[at] && self.waiters[at].is_none()
    }

    /// Returns whether an occurrence that waited was granted to no server. After a crash, only the latest
    /// occurrence is sure to be granted, and only if a living server was refused for it.
    fn has_lost_any(&self, model: &QueueModel) -> bool {
        let has_crashed = self.crashes < model.crashes;
        let knows = |member: &Member, at| member.step != Step::Crashed && member.queued.map(usize::from) == Some(at);
        let is_sure =
            |at| !has_crashed || (at == model.count() - 1 && self.members.iter().any(|member| knows(member, at)));
        (0..OCCURRENCES).any(|at| self.waited[at] && !self.claimed[at] && is_sure(at))
    }

    fn step(&mut self, me: u8, model: &QueueModel) {
        let member = self.members[usize::from(me)];
        match member.step {
            Step::Tick => {
                self.members[usize::from(me)].at = member.due;
                self.ask(me, model, true);
            }
            Step::Reads if self.waiters[usize::from(member.at)].is_some() => {
                self.members[usize::from(me)].queued = Some(member.at);
                self.is_done(me, model);
            }
            Step::Reads if self.a_later_one_waits(me, model) => self.leaves(me, model),
            Step::Reads => {
                self.members[usize::from(me)].free = self.free(model);
                if model.wanted(&self.members[usize::from(me)]).next().is_some() {
                    self.go(me, Step::Joins);
                } else if model.replaces {
                    self.members[usize::from(me)].free = [false; MOST_PLACES];
                } else {
                    self.refused_without_need |= !self.is_full(model);
                    self.is_done(me, model);
                }
            }
            Step::Waits if model.replaces => {
                if self.places.iter().flatten().any(|holder| *holder != me) {
                    self.go(me, Step::GivesWay);
                } else {
                    self.ask(me, model, false);
                }
            }
            Step::GivesWay if self.a_later_one_waits(me, model) => self.leaves(me, model),
            Step::GivesWay => {
                self.members[usize::from(me)].free = self.free(model);
                self.go(me, Step::Asks);
            }
            Step::Waits if model.takes_the_last_place() && self.moves_up(me) => {}
            Step::Waits => {
                let is_first = match model.flaw {
                    Some(QueueFlaw::CountsPlaces | QueueFlaw::TakesTheLastPlace) => {
                        self.places.iter().flatten().next() == Some(&me)
                    }
                    Some(QueueFlaw::LeavesItsPlaceFirst) => true,
                    _ => self.line[0] == Some(me),
                };
                if is_first {
                    self.go(me, Step::Asks);
                }
            }
            // Another waiter came since the read.
            Step::Asks if member.free.iter().zip(&self.places).any(|(free, holder)| *free && holder.is_some()) => {
                self.go(me, Step::Waits);
            }
            Step::Asks => self.ask(me, model, false),
            Step::LeavesPlace => {
                self.leave_place(me);
                self.go(me, Step::Runs);
            }
            Step::Runs => {
                self.let_go(me);
                self.is_done(me, model);
            }
            Step::Joins | Step::Crashed => {}
        }
    }

    /// Returns whether a place is held for a later occurrence than this server's.
    fn a_later_one_waits(&self, me: u8, model: &QueueModel) -> bool {
        let looks = model.replaces && model.flaw != Some(QueueFlaw::LooksAtNoOccurrence);
        looks && self.places.iter().flatten().any(|holder| self.is_later(*holder, me))
    }

    /// Returns whether this holder is at a later occurrence.
    fn is_later(&self, holder: u8, me: u8) -> bool {
        self.members[usize::from(holder)].at > self.members[usize::from(me)].at
    }

    /// Leaves for a later occurrence: its own is claimed.
    fn leaves(&mut self, me: u8, model: &QueueModel) {
        self.claimed[usize::from(self.members[usize::from(me)].at)] = true;
        self.leave_place(me);
        self.is_done(me, model);
    }

    /// Takes the place before its own, if it is free.
    fn moves_up(&mut self, me: u8) -> bool {
        let mine = self.places.iter().position(|holder| *holder == Some(me));
        let before = mine.and_then(|mine| mine.checked_sub(1)).filter(|before| self.places[*before].is_none());
        before.is_some_and(|before| {
            self.places.swap(before, before + 1);
            true
        })
    }

    /// Reads whether the run of this server is cancelled, as its renewal thread does.
    fn look(&mut self, me: u8, model: &QueueModel) {
        let at = usize::from(self.members[usize::from(me)].at);
        let is_meant = self.cancelled[at];
        let is_notified =
            if model.flaw == Some(QueueFlaw::CancelsWithoutAToken) { self.cancelled.contains(&true) } else { is_meant };
        self.gave_way_wrongly |= is_notified && !is_meant;
        self.notified[at] |= is_notified;
    }

    /// Cancels the run that is in the way.
    fn cancel_run(&mut self, me: u8) {
        let Some(runs) = self.lease.map(|holder| self.members[usize::from(holder)].at) else { return };
        self.gave_way_wrongly |= self.members[usize::from(me)].at <= runs;
        self.cancelled[usize::from(runs)] = true;
    }

    fn go(&mut self, me: u8, step: Step) {
        self.members[usize::from(me)].step = step;
    }

    /// Moves on to the next due occurrence, if the current one was due.
    fn is_done(&mut self, me: u8, model: &QueueModel) {
        let member = &mut self.members[usize::from(me)];
        member.due = match model.ticks {
            Ticks::All => member.due + u8::from(member.at == member.due),
            Ticks::OneEach => u8::try_from(OCCURRENCES).expect("they are few"),
        };
        (member.step, member.free) = (Step::Tick, [false; MOST_PLACES]);
    }

    fn leave_place(&mut self, me: u8) {
        for held in self.places.iter_mut().chain(&mut self.line).chain(&mut self.waiters) {
            held.take_if(|holder| *holder == me);
        }
        self.line.sort_by_key(Option::is_none);
    }

    /// Requests lease and claim together. A newcomer that finds a place occupied reads the places first.
    fn ask(&mut self, me: u8, model: &QueueModel, is_new: bool) {
        let at = usize::from(self.members[usize::from(me)].at);
        let looks = is_new && model.flaw != Some(QueueFlaw::NewcomersLookAtNoPlace);
        if looks && self.is_occupied() {
            self.go(me, Step::Reads);
        } else if self.claimed[at] {
            self.leave_place(me);
            self.is_done(me, model);
        } else if self.lease.is_some() {
            let looks = model.flaw != Some(QueueFlaw::LooksAtNoOccurrence);
            match is_new {
                true => self.go(me, Step::Reads),
                false if model.replaces && looks && self.lease.is_some_and(|runs| self.is_later(runs, me)) => {
                    self.leaves(me, model)
                }
                false if model.replaces => {
                    self.cancel_run(me);
                    self.go(me, Step::Waits);
                }
                false => {}
            }
        } else {
            self.overtaken |= is_new && self.waiting().next().is_some();
            self.out_of_order |=
                !is_new && !model.replaces && self.line.contains(&Some(me)) && self.line[0] != Some(me);
            self.lease = Some(me);
            self.claimed[at] = true;
            self.started[at] += 1;
            self.go(me, if is_new { Step::Runs } else { Step::LeavesPlace });
        }
    }

    /// Takes this place, and is the waiter of its occurrence; both or neither. If another one has the place, it reads again.
    fn join(&mut self, me: u8, place: usize, model: &QueueModel) {
        let member = &mut self.members[usize::from(me)];
        member.free = [false; MOST_PLACES];
        let at = usize::from(member.at);
        if self.waiters[at].is_some() {
            return self.go(me, Step::Reads);
        }
        if self.places[place].is_some() {
            return self.go(me, Step::Reads);
        }
        self.places[place] = Some(me);
        self.line[MOST_PLACES - 1] = Some(me);
        self.line.sort_by_key(Option::is_none);
        if model.flaw != Some(QueueFlaw::WaitsForNothingInParticular) {
            self.waiters[at] = Some(me);
        }
        self.waited[at] = true;
        if model.flaw == Some(QueueFlaw::LeavesItsPlaceFirst) {
            self.leave_place(me);
        }
        self.go(me, Step::Waits);
    }
}

/// Asserts that every promise holds in every reachable state, and that each expected event happens in some state.
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

/// Asserts that the flaw of the model breaks this promise.
#[track_caller]
pub fn queue_breaks(model: QueueModel, promise: &'static str) {
    let checked = model.checker().spawn_dfs().join();
    let path = checked.discovery(promise).map(stateright::Path::into_actions);
    println!(
        "{model:?} breaks {promise:?} by {:?}",
        path.unwrap_or_else(|| panic!("not found: {model:?} breaks {promise:?}"))
    );
}
