//! The machine's own zone, as the variable `TZ` names it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use chrono::{Local, Offset as _, TimeZone as _};
use soloist::{Event, Schedule, Zone};

use crate::support::at;

/// The role that a test gives to a copy of this program.
const ROLE: &str = "SOLOIST_TEST_LOCAL_ZONE";
const UNSET: &str = "unset";

/// Returns how a schedule describes an event in the machine's zone under this variable, and the offsets in winter
/// and summer.
fn on_a_machine(tz: &OsStr) -> (String, String) {
    let mut copy = Command::new(std::env::current_exe().expect("a running program has a path"));
    copy.args(["--exact", "local_zone::a_copy_tells_of_its_zone", "--nocapture"]).env(ROLE, "tells");
    if tz == UNSET {
        copy.env_remove("TZ")
    } else {
        copy.env("TZ", tz)
    };
    let output = copy.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("it is text");
    let told = |what: &str| {
        let line = text.lines().find_map(|line| line.split_once(what)).expect("it tells");
        line.1.to_owned()
    };
    (told("added: "), told("offsets: "))
}

#[test]
fn a_copy_tells_of_its_zone() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let schedule = Schedule::in_process().with_timezone(Zone::local());
    let usual = schedule.add(Event::call("e", |_| {}).daily()).map(|_| ()).map_err(|error| error.to_string());
    let own = Event::call("e", |_| {}).daily().timezone("local");
    let own = Schedule::in_process().add(own).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(usual, own);
    println!("added: {}", own.err().unwrap_or_default());
    let offset = |text| Local.offset_from_utc_datetime(&at(text).naive_utc()).fix().local_minus_utc();
    println!("offsets: {} {}", offset("2026-01-15T12:00:00Z"), offset("2026-07-15T12:00:00Z"));
    let elsewhere = Event::call("elsewhere", |_| {}).daily().timezone("UTC");
    schedule.add(elsewhere).expect("it does not mean the machine's own zone");
}

#[test]
fn a_zone_that_the_machine_knows_is_taken() {
    let (_, usual) = on_a_machine(OsStr::new(UNSET));
    for (tz, offsets) in [
        (UNSET, &*usual),
        ("", "0 0"),
        ("localtime", &usual),
        ("UTC", "0 0"),
        ("Europe/Berlin", "3600 7200"),
        (":Europe/Berlin", "3600 7200"),
        ("/usr/share/zoneinfo/Asia/Kathmandu", "20700 20700"),
        ("EST5EDT", "-18000 -14400"),
        ("EST5", "-18000 -18000"),
        ("XYZ-1:30", "5400 5400"),
        ("<+0545>-5:45", "20700 20700"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "3600 7200"),
        (" CET-1CEST-3,M3.5.0/2:00:00,J300/3 ", "3600 10800"),
        ("NZST-12NZDT,265,90/3", "46800 43200"),
    ] {
        assert_eq!(on_a_machine(OsStr::new(tz)), (String::new(), offsets.to_owned()), "{tz}");
    }
}

#[test]
fn a_variable_that_names_no_zone_is_refused_and_not_taken_for_utc() {
    let usual = on_a_machine(OsStr::new(UNSET)).1;
    let said = |shown: &str| {
        format!(
            "event `e`: the machine's own zone is not known: the variable TZ is `{shown}`, which is neither a zone in \
             /usr/share/zoneinfo nor a rule such as `CET-1CEST,M3.5.0,M10.5.0/3`: correct TZ, install the system's time \
             zones (the package tzdata), or name the zone in `timezone(..)` instead of `local`"
        )
    };
    for tz in [
        "Mars/Olympus",
        "europe/berlin",
        "Europe",
        "Europe/Berlin ",
        ":",
        ":CET-1",
        "/etc/hosts",
        "zone.tab",
        "+02:00",
        "UTC+2:60",
        "CET-24",
        "AB-1",
        "CET-1CEST",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.5.0,M10.5.0/3x",
        "CET-1CEST,J0,J300",
    ] {
        assert_eq!(on_a_machine(OsStr::new(tz)), (said(tz), usual.clone()), "{tz}");
    }
    let no_text: OsString = OsStr::from_bytes(b"Europe/\xff").to_owned();
    assert_eq!(on_a_machine(&no_text), (said("Europe/\u{fffd}"), usual));
}

#[test]
fn a_zone_file_that_is_replaced_counts_at_once() {
    use crate::support::{output_alone, until};

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zone");
    let of = |name: &str| format!("/usr/share/zoneinfo/{name}");
    for way in ["rename", "write", "link"] {
        let tz = format!(":{}", file.display());
        let name = "local_zone::a_zone_file_that_is_replaced_counts_at_once";
        let _ = std::fs::remove_file(&file);
        if way == "link" {
            std::os::unix::fs::symlink(of("UTC"), &file).unwrap();
        } else {
            std::fs::copy(of("UTC"), &file).unwrap();
        }
        if let Some(output) = output_alone(name, &[("TZ", &tz), ("SOLOIST_TEST_WAY", way)]) {
            assert!(output.status.success(), "{way}: {output:?}");
            continue;
        }
        // The process that was given this zone replaces its file.
        let file = std::env::var("TZ").unwrap().trim_start_matches(':').to_owned();
        let ahead = || Zone::local().offset_at(at("2026-01-15T12:00:00Z")).local_minus_utc();
        assert_eq!(ahead(), 0);
        let other = format!("{file}.new");
        match &*std::env::var("SOLOIST_TEST_WAY").unwrap() {
            "rename" => {
                std::fs::copy(of("Asia/Tokyo"), &other).unwrap();
                std::fs::rename(&other, &file).unwrap();
            }
            "write" => _ = std::fs::copy(of("Asia/Tokyo"), &file).unwrap(),
            _ => {
                std::os::unix::fs::symlink(of("Asia/Tokyo"), &other).unwrap();
                std::fs::rename(&other, &file).unwrap();
            }
        }
        until(|| ahead() == 9 * 3600).expect("the new rules count");
        return;
    }
}

#[test]
fn a_zone_file_that_can_not_be_read_leaves_the_rules_as_they_were() {
    use crate::support::output_alone;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zone");
    std::fs::copy("/usr/share/zoneinfo/Asia/Tokyo", &file).unwrap();
    let name = "local_zone::a_zone_file_that_can_not_be_read_leaves_the_rules_as_they_were";
    if let Some(output) = output_alone(name, &[("TZ", &format!(":{}", file.display()))]) {
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let ahead = || Zone::local().offset_at(at("2026-01-15T12:00:00Z")).local_minus_utc();
    assert_eq!(ahead(), 9 * 3600);
    let file = std::env::var("TZ").unwrap().trim_start_matches(':').to_owned();
    for half_written in [Some("TZif2"), Some(""), None] {
        match half_written {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        std::thread::sleep(std::time::Duration::from_millis(1_100)); // it is read again after a second
        assert_eq!(ahead(), 9 * 3600, "{half_written:?}");
    }
}
