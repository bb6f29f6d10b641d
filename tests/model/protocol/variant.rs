//! Which protocol is checked, and what is wrong with it.

/// How lease and claim are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// The store decides on both in one step; an answer that is lost is asked for once more by the same owner.
    AtOnce,
    /// The default of `EventMutex::carry_out`: look at the claim, take the lease, take the claim. Each is asked once.
    InSteps,
}

/// One thing that is done wrong, so that the check has something to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The store forgets a lease whoever asks for that.
    ForgetIgnoresOwner,
    /// The store extends a lease whoever asks for that.
    ExtendIgnoresOwner,
    /// In steps, the claim is taken first, and kept when the lease is refused.
    ClaimBeforeLease,
    /// A deadline counts from when the answer was there.
    DeadlineAfterReply,
    /// A renewal that gets no answer ends the run.
    RenewalGivesUp,
    /// A token counts from what is held, so that it starts again where nothing is.
    TokenStartsAgain,
    /// What was granted is run, however late the grant arrives.
    LateGrantRuns,
    /// The claim is given back when the run has ended, like the lease.
    ClaimGivenBack,
    /// The store does not know the owner again whose answer was lost.
    RetryIsStranger,
    /// A copy of an admission that arrives when its run is over, and another's has the lease, takes back the claim that it
    /// finds, as if it had taken that itself.
    LateCopyTakesClaimBack,
}

#[derive(Clone, Copy, Debug)]
pub struct Variant {
    pub admit: Admit,
    pub broken: Option<Broken>,
    /// How many faults there are at most: crashes, losses, copies, connections that break, and leases that are broken.
    pub faults: u8,
}

impl Variant {
    pub fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// Whether the store changes nothing for anybody but its owner.
    pub fn looks_at_owners(&self) -> bool {
        !self.is(Broken::ForgetIgnoresOwner) && !self.is(Broken::ExtendIgnoresOwner)
    }
}
