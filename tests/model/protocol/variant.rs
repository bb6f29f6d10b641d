//! The protocol under check, and its flaw.

/// The way to acquire lease and claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// The store decides on both in one step; after a lost reply, the owner asks once more.
    AtOnce,
    /// The default of `EventMutex::carry_out`: read the claim, take the lease, take the claim. Each request is
    /// sent once.
    InSteps,
}

/// A flaw of the protocol, which the check must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The store forgets a lease for any owner.
    ForgetIgnoresOwner,
    /// The store extends a lease for any owner.
    ExtendIgnoresOwner,
    /// In steps, the claim is taken first, and kept when the lease is refused.
    ClaimBeforeLease,
    /// A deadline counts from when the answer was there.
    DeadlineAfterReply,
    /// A renewal that gets no answer ends the run.
    RenewalGivesUp,
    /// A token counts from the current lease, so that it starts again when there is none.
    TokenStartsAgain,
    /// A grant starts a run, however late it arrives.
    LateGrantRuns,
    /// The claim is released after the run, like the lease.
    ClaimGivenBack,
    /// The store does not know the owner again whose answer was lost.
    RetryIsStranger,
    /// A copy of an admission arrives when its run is over and another's has the lease. The store removes the
    /// claim that it finds, as if the copy had taken it.
    LateCopyTakesClaimBack,
    /// A run that waits for a retry begins it, although its deadline has passed.
    RetriesPastItsDeadline,
    /// A run that waits for a retry has released its lease.
    ReleasesToWait,
}

#[derive(Clone, Copy, Debug)]
pub struct Variant {
    pub admit: Admit,
    pub broken: Option<Broken>,
    /// How many faults there are at most: crashes, losses, copies, connections that break, and leases that are broken.
    pub faults: u8,
    /// Whether a task may fail once, and start again within its run.
    pub retries: bool,
}

impl Variant {
    pub fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// Returns whether the store checks the owner before a change.
    pub fn looks_at_owners(&self) -> bool {
        !self.is(Broken::ForgetIgnoresOwner) && !self.is(Broken::ExtendIgnoresOwner)
    }
}
