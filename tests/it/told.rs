//! What reaches standard error by itself, in processes of their own: what nobody listens to by `tracing`, and no report says.

use soloist::{Event, FileMutex, Period, Schedule};
use tracing_subscriber::Registry;

use crate::support::output_alone;

/// What the process of a test is to do.
const ROLE: &str = "SOLOIST_TEST_ROLE";

/// The lines by which the library tells what no report says, of a process that plays `role` in the test `name`. `None`: this
/// is that process.
#[track_caller]
fn told(name: &str, role: &str) -> Option<Vec<String>> {
    let output = output_alone(name, &[(ROLE, role)])?;
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(said.lines().filter(|line| line.starts_with("soloist: ")).map(str::to_owned).collect())
}

fn role() -> String {
    std::env::var(ROLE).expect("it is set")
}

/// Hears everything, and writes nothing.
fn listen() {
    tracing::subscriber::set_global_default(Registry::default()).expect("nobody else listens");
}

#[test]
fn a_claim_that_no_other_process_sees_is_told_once_where_nobody_listens() {
    let name = "told::a_claim_that_no_other_process_sees_is_told_once_where_nobody_listens";
    if let Some(lines) = told(name, "alone") {
        let [line] = &lines[..] else { panic!("{lines:?}") };
        for words in ["event `odd name`", "on_one_server", "to this process alone", "file:"] {
            assert!(line.contains(words), "{words}: {line}");
        }
        assert_eq!(told(name, "is listened to"), Some(Vec::new()));
        return;
    }
    if role() == "is listened to" {
        listen();
    }
    let event = |name: &str| Event::call(name, |_| {}).every_minute();
    for _ in 0..2 {
        let mut schedule = Schedule::in_process();
        schedule.add(event("held").without_overlapping()).unwrap();
        schedule.add(event("odd name").on_one_server()).unwrap();
        schedule.add(event("once a day").once_per(Period::Day)).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    Schedule::new(FileMutex::in_dir(dir.path()).unwrap()).add(event("reaches far").on_one_server()).unwrap();
}
