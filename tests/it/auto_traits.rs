//! What users may rely on without it being written at each type.

use std::error::Error;
use std::fmt::Debug;

fn shared<T: Debug + Send + Sync>() {}

fn error<T: Error + Send + Sync + 'static>() {}

#[test]
fn everything_may_be_shared_between_threads_and_shown_to_a_developer() {
    shared::<soloist::AddErrorKind>();
    shared::<soloist::Admission>();
    shared::<soloist::Admitted>();
    shared::<soloist::CancelReason>();
    shared::<soloist::Cancelled>();
    shared::<soloist::Clock>();
    shared::<soloist::ClockChange>();
    shared::<soloist::Crontab>();
    shared::<soloist::Ended>();
    shared::<soloist::Entry>();
    shared::<soloist::Event>();
    shared::<soloist::Fault>();
    shared::<soloist::FencingToken>();
    shared::<soloist::FileMutex>();
    shared::<soloist::FileMutexBuilder>();
    shared::<soloist::Grant>();
    shared::<soloist::Holder>();
    shared::<soloist::Hook>();
    shared::<soloist::HookFailure>();
    shared::<soloist::KeptOutput>();
    shared::<soloist::Lease>();
    shared::<soloist::LeaseGuard>();
    shared::<soloist::LeaseRequest>();
    shared::<soloist::Lifeline>();
    shared::<soloist::ManualClock>();
    shared::<soloist::MemoryMutex>();
    shared::<soloist::Moment>();
    shared::<soloist::MutexName>();
    shared::<soloist::OneOrMore<u32>>();
    shared::<soloist::OutagePolicy>();
    shared::<soloist::Output>();
    shared::<soloist::Owner>();
    shared::<soloist::Period>();
    shared::<soloist::Pause>();
    shared::<soloist::Release>();
    shared::<soloist::Report>();
    shared::<soloist::Run>();
    shared::<soloist::RunOutcome>();
    shared::<soloist::Schedule>();
    shared::<soloist::Scope>();
    shared::<soloist::Shutdown>();
    shared::<soloist::SkipReason>();
    shared::<soloist::Term>();
    shared::<soloist::Tick>();
    shared::<soloist::Verdict>();
    shared::<soloist::Zone>();
}

#[test]
fn every_error_is_one_that_a_question_mark_passes_on() {
    error::<soloist::AddError>();
    error::<soloist::Cancelled>();
    error::<soloist::ConnectError>();
    error::<soloist::CrontabError>();
    error::<soloist::InvalidName>();
    error::<soloist::InvalidOwner>();
    error::<soloist::InvalidTerm>();
    error::<soloist::MutexError>();
    error::<soloist::PauseError>();
    error::<soloist::UnknownEvent>();
    error::<soloist::UnknownZone>();
}
