//! The whole model: servers, store, messages in flight, and time. An action is a step of one of them.

use stateright::{Model, Property};

use crate::promises;
use crate::server::{Effects, Phase, Server, Skipped};
use crate::store::{Asks, Grant, Owner, PATIENCE, Request, Says, Store};
use crate::variant::{Admit, Broken, Variant};

pub(crate) const SERVERS: u8 = 3;

/// When each occurrence is due. The ticks of the servers are as late as they like, each for itself.
const DUE: [u8; 2] = [0, 1];

/// The time at which the clock stops. Messages in flight still arrive.
const HORIZON: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    Asked(Request),
    Answered(Request, Says),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fleet {
    pub(crate) now: u8,
    pub(crate) servers: [Server; SERVERS as usize],
    pub(crate) store: Store,
    /// The messages in flight, sorted. They arrive in any order.
    pub(crate) mail: Vec<Message>,
    pub(crate) faults: u8,
    /// How often each occurrence was started.
    pub(crate) starts: [u8; 2],
    pub(crate) missed: [Missed; 2],
    pub(crate) wrongs: Wrongs,
}

/// The reasons why an occurrence has not run yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Missed {
    /// The servers that others named when they skipped the occurrence as run elsewhere; a bit for each.
    pub(crate) left_to: u8,
    /// The servers that crashed or were cut off during the admission; a bit for each.
    pub(crate) cut_off: u8,
}

/// The violations on the servers, for the properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Wrongs {
    /// A run was stopped although its lease was its own and its deadline to come.
    pub(crate) stopped_needlessly: bool,
    /// A server skipped an occurrence as run elsewhere that it had claimed itself.
    pub(crate) refused_its_own: bool,
    /// A run, or its next attempt, began whose lease was not its own.
    pub(crate) started_without_lease: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    TimePasses,
    /// A tick of this server: it requests the admission.
    Tick(u8),
    /// The store acts on this request.
    Acts(Request),
    /// The store acts on this request, and a copy stays in flight.
    ActsOnCopy(Request),
    Loses(Message),
    /// A server gets this reply.
    Hears(Request, Says),
    /// The server's connection breaks, and it sends the request once more on another.
    AsksAgain(u8),
    /// The server waits no longer, and releases the lease and claim that may be its own.
    GivesUp(u8),
    /// The task is renewed.
    Renews(u8),
    RenewalFails(u8),
    /// The task has failed, and is to start again.
    Fails(u8),
    /// The task starts again.
    Retries(u8),
    /// The task has come to its end, or the wait for its retry has.
    Ends(u8),
    /// The server reads its clock, and its deadline has passed.
    Notices(u8),
    Crashes(u8),
    OperatorBreaks(Owner),
}

impl Model for Variant {
    type State = Fleet;
    type Action = Action;

    fn init_states(&self) -> Vec<Fleet> {
        vec![Fleet { faults: self.faults, ..Fleet::default() }]
    }

    fn actions(&self, fleet: &Fleet, actions: &mut Vec<Action>) {
        if fleet.now < HORIZON {
            actions.push(Action::TimePasses);
        }
        for me in 0..SERVERS {
            fleet.actions_of(me, self, actions);
        }
        for message in &fleet.mail {
            match *message {
                Message::Asked(request) => {
                    actions.push(Action::Acts(request));
                    if fleet.faults > 0 && request.asks.may_be_repeated() {
                        actions.push(Action::ActsOnCopy(request));
                    }
                }
                Message::Answered(request, says) => actions.push(Action::Hears(request, says)),
            }
            // The loss of any other message is like its arrival when it changes nothing any more; claims do not
            // expire here.
            if fleet.faults > 0 && matches!(message, Message::Asked(Request { asks: Asks::ForgetClaim, .. })) {
                actions.push(Action::Loses(*message));
            }
        }
        if let Some(held) = fleet.store.live(fleet.now)
            && fleet.faults > 0
        {
            actions.push(Action::OperatorBreaks(held.owner));
        }
    }

    fn next_state(&self, before: &Fleet, action: Action) -> Option<Fleet> {
        let mut fleet = before.clone();
        fleet.take(action, self);
        fleet.forget_what_is_in_vain(self);
        fleet.forget_what_is_over();
        if !self.is(Broken::TokenStartsAgain) {
            fleet.count_tokens_anew();
        }
        fleet.number_servers_anew();
        Some(fleet)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::all(self)
    }
}

impl Fleet {
    fn actions_of(&self, me: u8, variant: &Variant, actions: &mut Vec<Action>) {
        let server = self.servers[usize::from(me)];
        let faulty = self.faults > 0;
        match server.phase {
            Phase::Idle => {
                // Servers are alike: of those that have not ticked yet, the first ticks first.
                let is_next =
                    server.occurrence > 0 || me == 0 || self.servers[usize::from(me) - 1] != Server::default();
                if is_next && DUE.get(usize::from(server.occurrence)).is_some_and(|due| *due <= self.now) {
                    actions.push(Action::Tick(me));
                }
            }
            Phase::AtGate { again, .. } => {
                if faulty && !again && variant.admit == Admit::AtOnce {
                    actions.push(Action::AsksAgain(me));
                }
                if faulty || !self.is_expected(me) {
                    actions.push(Action::GivesUp(me));
                }
            }
            Phase::Running { deadline, asked, .. } => {
                actions.push(Action::Ends(me));
                if variant.retries && server.may_fail() {
                    actions.push(Action::Fails(me));
                }
                if server.may_retry(self.now, variant) {
                    actions.push(Action::Retries(me));
                }
                if deadline <= self.now {
                    actions.push(Action::Notices(me));
                }
                if server.wants_renewal(self.now) {
                    actions.push(Action::Renews(me));
                }
                if asked.is_some() && (faulty || !self.is_expected(me)) {
                    actions.push(Action::RenewalFails(me));
                }
            }
            Phase::Crashed => {}
        }
        if faulty && matches!(server.phase, Phase::AtGate { .. } | Phase::Running { .. }) {
            actions.push(Action::Crashes(me));
        }
    }

    /// Returns whether the server's request is in flight, or the reply.
    fn is_expected(&self, me: u8) -> bool {
        self.mail.iter().any(|message| {
            let (Message::Asked(request) | Message::Answered(request, _)) = message;
            request.owner.server == me && self.servers[usize::from(me)].waits_for(request)
        })
    }

    fn take(&mut self, action: Action, variant: &Variant) {
        let now = self.now;
        match action {
            Action::TimePasses => {
                self.now += 1;
                self.store.expire(self.now);
            }
            Action::Tick(me) => {
                self.step(me, |server| server.tick(me, now, variant));
                self.look(me, variant);
            }
            Action::Acts(request) => {
                self.drop(Message::Asked(request));
                self.act(request, variant);
            }
            Action::ActsOnCopy(request) => {
                self.faults -= 1;
                self.act(request, variant);
            }
            Action::Loses(message) => {
                self.faults -= 1;
                self.drop(message);
            }
            Action::Hears(request, says) => {
                self.drop(Message::Answered(request, says));
                self.deliver(request, says, variant);
            }
            Action::AsksAgain(me) => {
                self.faults -= 1;
                self.step(me, |server| server.ask_again(me, now));
            }
            Action::GivesUp(me) => {
                if self.is_expected(me) {
                    self.faults -= 1;
                }
                self.step(me, |server| server.give_up_admission(me, now));
            }
            Action::Renews(me) => self.step(me, |server| server.renew(me, now)),
            Action::RenewalFails(me) => {
                if self.is_expected(me) {
                    self.faults -= 1;
                }
                self.step(me, |server| server.lose_renewal(me, now, variant));
            }
            Action::Fails(me) => self.step(me, |server| server.fail(me, now, variant)),
            Action::Retries(me) => self.step(me, Server::retry),
            Action::Ends(me) => self.step(me, |server| server.stop_at_its_end(me, now, variant)),
            Action::Notices(me) => self.step(me, |server| server.stop(me, now)),
            Action::Crashes(me) => {
                self.faults -= 1;
                self.step(me, Server::crash);
            }
            Action::OperatorBreaks(owner) => {
                self.faults -= 1;
                self.post(Message::Asked(Request { owner, asks: Asks::Break, sent: 0, again: false }));
            }
        }
    }

    /// Reads the claim at once in a tick that begins so: the tick is as late as its read.
    fn look(&mut self, me: u8, variant: &Variant) {
        let looks = |message: &&Message| matches!(message, Message::Asked(Request { owner, asks: Asks::Look, .. }) if owner.server == me);
        if let Some(Message::Asked(request)) = self.mail.iter().find(looks).copied() {
            self.drop(Message::Asked(request));
            self.act(request, variant);
        }
    }

    /// Applies a step of a server.
    fn step(&mut self, me: u8, step: impl FnOnce(&mut Server) -> Effects) {
        let now = self.now;
        let before = self.servers[usize::from(me)];
        let Effects { sent, started, retried, skipped, gave_up } = step(&mut self.servers[usize::from(me)]);
        let held = self.store.holds(before.owner(me), now);
        let occurrence = usize::from(before.occurrence);
        match skipped {
            Some(Skipped::RanElsewhere { by }) if by == me => self.wrongs.refused_its_own = true,
            _ if self.starts[occurrence] > 0 => {}
            Some(Skipped::RanElsewhere { by }) => self.missed[occurrence].left_to |= 1 << by,
            Some(Skipped::CutOff) => self.missed[occurrence].cut_off |= 1 << me,
            Some(Skipped::Overlapping) | None => {}
        }
        if started {
            self.starts[occurrence] += 1;
            self.missed[occurrence] = Missed::default();
        }
        self.wrongs.started_without_lease |= (started || retried) && !held && !before.broken;
        self.wrongs.stopped_needlessly |= gave_up && held && before.believes(now);
        for request in sent {
            self.post(Message::Asked(request));
        }
    }

    fn act(&mut self, request: Request, variant: &Variant) {
        let held = self.store.holds(request.owner, self.now);
        let says = self.store.act(request, self.now, variant);
        if request.asks == Asks::Break && held {
            let server = &mut self.servers[usize::from(request.owner.server)];
            server.broken |= server.occurrence == request.owner.occurrence;
        }
        match says {
            Some(says) if request.may_be_heard_too_late(says) => self.post(Message::Answered(request, says)),
            // A later reply would be like a later action of the store.
            Some(says) if self.servers[usize::from(request.owner.server)].waits_for(&request) => {
                self.deliver(request, says, variant);
            }
            _ => {}
        }
    }

    fn deliver(&mut self, request: Request, says: Says, variant: &Variant) {
        let (me, now) = (request.owner.server, self.now);
        if request.asks == Asks::Extend {
            self.step(me, |server| server.handle_renewal(me, says, now, variant));
        } else {
            self.step(me, |server| server.handle_reply(me, says, now, variant));
        }
    }

    fn post(&mut self, message: Message) {
        // Two equal messages need one place: acting on a copy leaves the message in flight.
        if let Err(at) = self.mail.binary_search(&message) {
            self.mail.insert(at, message);
        }
    }

    fn drop(&mut self, message: Message) {
        self.mail.retain(|other| *other != message);
    }

    /// Drops messages that will change nothing, whenever they arrive.
    fn forget_what_is_in_vain(&mut self, variant: &Variant) {
        let Self { now, servers, store, .. } = *self;
        let in_hand = |owner: Owner| {
            let server = servers[usize::from(owner.server)];
            server.occurrence == owner.occurrence && !matches!(server.phase, Phase::Idle | Phase::Crashed)
        };
        let bit = |owner: Owner| 1_u8 << (2 * owner.server + owner.occurrence);
        let takers = self.mail.iter().fold(0, |takers, message| match message {
            Message::Asked(Request { owner, asks: Asks::Admit | Asks::TakeLease | Asks::TakeClaim, .. }) => {
                takers | bit(*owner)
            }
            _ => takers,
        });
        let may_take = |owner: Owner| takers & bit(owner) != 0;
        self.mail.retain(|message| match message {
            // Drop a reply that no server waits for.
            Message::Answered(request, _) => servers[usize::from(request.owner.server)].waits_for(request),
            Message::Asked(request) => match request.asks {
                Asks::Admit => now <= request.sent + PATIENCE,
                Asks::Look => servers[usize::from(request.owner.server)].waits_for(request),
                Asks::Extend | Asks::ForgetLease | Asks::Break if variant.looks_at_owners() => {
                    in_hand(request.owner) || may_take(request.owner) || store.holds(request.owner, now)
                }
                Asks::ForgetClaim => may_take(request.owner) || store.claims.contains(&Some(request.owner)),
                _ => true,
            },
        });
    }

    /// Removes the time of each deadline that has passed, since it makes no difference.
    fn forget_what_is_over(&mut self) {
        let now = self.now;
        for server in &mut self.servers {
            server.forget_what_is_over(now);
        }
    }

    /// Numbers the known tokens from one on: only their order counts.
    fn count_tokens_anew(&mut self) {
        let mut grants: Vec<&mut Grant> = Vec::with_capacity(8);
        grants.extend(self.servers.iter_mut().filter_map(Server::grant_mut));
        grants.extend(self.mail.iter_mut().filter_map(|message| match message {
            Message::Answered(_, Says::Granted(grant)) => Some(grant),
            _ => None,
        }));
        grants.extend(self.store.lease.as_mut().map(|entry| &mut entry.grant));
        grants.sort_unstable();
        let mut last = Grant::default();
        let mut before = Grant::default();
        for grant in grants {
            if *grant != before {
                before = *grant;
                last = last.next();
            }
            *grant = last;
        }
        self.store.last = last;
    }

    /// Numbers the servers in the order of their states, because they are alike: most states that differ in these
    /// numbers only become one state.
    fn number_servers_anew(&mut self) {
        let mut order = [0, 1, 2];
        order.sort_by_key(|me| (self.servers[usize::from(*me)], self.traces_of(*me)));
        if order.is_sorted() {
            return;
        }
        self.servers = order.map(|me| self.servers[usize::from(me)]);
        let new =
            |me: u8| (0..SERVERS).zip(order).find_map(|(new, old)| (old == me).then_some(new)).expect("all are there");
        for message in &mut self.mail {
            let (Message::Asked(request) | Message::Answered(request, _)) = message;
            request.owner.server = new(request.owner.server);
            if let Message::Answered(_, Says::ClaimTaken { by }) = message {
                *by = new(*by);
            }
        }
        self.mail.sort_unstable();
        let lease = self.store.lease.iter_mut().map(|entry| &mut entry.owner);
        for owner in lease.chain(self.store.claims.iter_mut().flatten()) {
            owner.server = new(owner.server);
        }
        for Missed { left_to, cut_off } in &mut self.missed {
            for servers in [left_to, cut_off] {
                *servers = (0..SERVERS).filter(|me| *servers >> me & 1 != 0).map(|me| 1 << new(me)).sum();
            }
        }
    }

    /// Returns what the store and the messages have of a server, as bits.
    fn traces_of(&self, me: u8) -> u64 {
        let is_mine = |owner: &Owner| owner.server == me;
        let leased = self.store.lease.iter().filter(|entry| is_mine(&entry.owner)).map(|entry| entry.owner.occurrence);
        let claimed =
            self.store.claims.iter().flatten().filter(|owner| is_mine(owner)).map(|owner| 2 + owner.occurrence);
        let missed = (4..).step_by(2).zip(&self.missed).flat_map(|(at, Missed { left_to, cut_off })| {
            [(at, left_to), (at + 1, cut_off)]
                .into_iter()
                .filter(|(_, servers)| **servers >> me & 1 != 0)
                .map(|(at, _)| at)
        });
        let sent = self.mail.iter().map(|message| match message {
            Message::Asked(request) => (8, request),
            Message::Answered(request, _) => (24, request),
        });
        let sent = sent.filter(|(_, request)| is_mine(&request.owner));
        let sent = sent.map(|(at, request)| at + 8 * request.owner.occurrence + request.asks as u8);
        leased.chain(claimed).chain(missed).chain(sent).fold(0, |traces, at| traces | 1 << at)
    }

    pub(crate) fn is_over(&self) -> bool {
        let rests = |server: &Server| match server.phase {
            Phase::Idle => usize::from(server.occurrence) == DUE.len(),
            Phase::Crashed => true,
            _ => false,
        };
        self.servers.iter().all(rests)
    }
}
