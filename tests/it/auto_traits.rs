//! Auto traits that users may rely on.

use std::error::Error;
use std::fmt::Debug;

fn shared<T: Debug + Send + Sync>() {}

fn error<T: Error + Send + Sync + 'static>() {}

#[test]
fn everything_may_be_shared_between_threads_and_shown_to_a_developer() {
    shared::<soloist::AddErrorKind>();
    shared::<soloist::store::Admission>();
    shared::<soloist::store::Admitted>();
    shared::<soloist::CancelReason>();
    shared::<soloist::observe::Cancelled>();
    shared::<soloist::time::Clock>();
    shared::<soloist::time::ClockChange>();
    shared::<soloist::time::Crontab>();
    shared::<soloist::observe::Ended>();
    shared::<soloist::Entry>();
    shared::<soloist::Event>();
    shared::<soloist::observe::Fault>();
    shared::<soloist::FencingToken>();
    shared::<soloist::FileMutex>();
    shared::<soloist::store::FileMutexBuilder>();
    shared::<soloist::store::Grant>();
    shared::<soloist::store::Holder>();
    shared::<soloist::observe::Hook>();
    shared::<soloist::observe::HookFailure>();
    shared::<soloist::observe::KeptOutput>();
    shared::<soloist::store::Lease>();
    shared::<soloist::LeaseGuard>();
    shared::<soloist::store::LeaseRequest>();
    shared::<soloist::store::Lifeline>();
    shared::<soloist::time::ManualClock>();
    shared::<soloist::MemoryMutex>();
    shared::<soloist::time::Moment>();
    shared::<soloist::MutexName>();
    shared::<soloist::OutagePolicy>();
    shared::<soloist::Output>();
    shared::<soloist::store::Owner>();
    shared::<soloist::Period>();
    shared::<soloist::observe::Pause>();
    shared::<soloist::observe::Release>();
    shared::<soloist::Report>();
    shared::<soloist::Run>();
    shared::<soloist::RunOutcome>();
    shared::<soloist::Schedule>();
    shared::<soloist::store::Scope>();
    shared::<soloist::Shutdown>();
    shared::<soloist::SkipReason>();
    shared::<soloist::Term>();
    shared::<soloist::time::Tick>();
    shared::<soloist::Verdict>();
    shared::<soloist::Zone>();
}

#[test]
fn every_error_is_one_that_a_question_mark_passes_on() {
    error::<soloist::AddError>();
    error::<soloist::observe::Cancelled>();
    error::<soloist::store::ConnectError>();
    error::<soloist::time::CrontabError>();
    error::<soloist::store::InvalidName>();
    error::<soloist::store::InvalidOwner>();
    error::<soloist::store::InvalidTerm>();
    error::<soloist::MutexError>();
    error::<soloist::observe::PauseError>();
    error::<soloist::observe::UnknownEvent>();
    error::<soloist::time::UnknownZone>();
}
