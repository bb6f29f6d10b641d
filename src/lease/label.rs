//! The label of a holder. Stores keep the host and the label together, as one text. The text has up to five parts:
//! host, instance, application, timetable and reason.
//!
//! ```text
//! web-1 instance=blue app=shop timetable=hourly,%20UTC; (the table is migrated)
//! ```
//!
//! Unknown parts are left out. Spaces, control characters and `%` are written as `%XX`, except in the reason. The
//! reason is not encoded, and comes last. A store without enough room cuts off the end of the text. A timetable without
//! its final `;` was cut, and is ignored.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use percent_encoding::percent_decode_str;

use crate::base::escape::{Named, OneLine, percent_encoded};

/// The largest number of characters in the name of an application or an instance.
pub(crate) const LONGEST: usize = 100;

/// The words that begin a part of the text. Only the last part, the reason, may contain spaces.
const INSTANCE: &str = " instance=";
const APPLICATION: &str = " app=";
const TIMETABLE: &str = " timetable=";
const REASON: &str = " (";

/// The reason in all requests of a backfill.
pub(crate) const BACKFILL: &str = "backfill";

/// The label of a request or a holder: application, instance, timetable and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label {
    /// The name of the schedule.
    pub(crate) application: Option<Arc<str>>,
    /// The name of the process, for fleets where host and process id do not identify a process.
    pub(crate) instance: Option<Arc<str>>,
    /// The timetable of the event, in the requests of a run that makes a claim.
    pub(crate) timetable: Option<Arc<str>>,
    pub(crate) reason: Option<Arc<str>>,
}

impl Label {
    /// Returns `label`, with the instance name of this process if `label` has no instance name.
    pub(crate) fn of_this_process(label: Option<&Self>) -> Self {
        let label = label.cloned().unwrap_or_default();
        Self { instance: label.instance.or_else(this_instance), ..label }
    }
}

/// Returns the text that a store keeps for a request of this process with this label.
pub(crate) fn text_of_this_process(label: Option<&Label>) -> String {
    text(&this_host(), &Label::of_this_process(label))
}

/// Returns the text that a store keeps for this host and this label.
pub(crate) fn text(host: &str, Label { application, instance, timetable, reason }: &Label) -> String {
    let mut text = String::with_capacity(100);
    text.push_str(&encoded(host));
    for (word, part) in [(INSTANCE, instance), (APPLICATION, application)] {
        text.extend(part.iter().flat_map(|part| [word.into(), encoded(part)]));
    }
    text.extend(timetable.iter().flat_map(|timetable| [TIMETABLE.into(), encoded(timetable), ";".into()]));
    text.extend(reason.iter().flat_map(|reason| [REASON, &**reason, ")"]));
    text
}

fn encoded(part: &str) -> Cow<'_, str> {
    percent_encoded(part, &[' '])
}

/// Parses the text that a store keeps into the host and the label. The text may be only the name of a host.
pub(crate) fn parse(text: Arc<str>) -> (Arc<str>, Label) {
    if !text.contains([' ', '%']) {
        return (text, Label::default());
    }
    let (rest, reason) = split(&text, REASON);
    let (rest, timetable) = split(rest, TIMETABLE);
    let (rest, application) = split(rest, APPLICATION);
    let (host, instance) = split(rest, INSTANCE);
    let decoded = |part: &str| Arc::<str>::from(percent_decode_str(part).decode_utf8_lossy());
    let label = Label {
        application: application.map(decoded),
        instance: instance.map(decoded),
        timetable: timetable.and_then(|timetable| timetable.strip_suffix(';')).map(decoded),
        reason: reason.map(|reason| reason.strip_suffix(')').unwrap_or(reason).into()),
    };
    (decoded(host), label)
}

/// Splits `text` at the first `word`. Returns the text before the word, and the part after it, if there is one.
fn split<'t>(text: &'t str, word: &str) -> (&'t str, Option<&'t str>) {
    text.split_once(word).map_or((text, None), |(before, part)| (before, Some(part)))
}

/// Returns the name of this host. The name is read once.
pub(crate) fn this_host() -> Arc<str> {
    static HOST: OnceLock<Arc<str>> = OnceLock::new();
    Arc::clone(HOST.get_or_init(|| gethostname::gethostname().to_string_lossy().into()))
}

/// Returns the value of `SOLOIST_INSTANCE`, cut to [`LONGEST`] characters. The variable is read once.
pub(crate) fn this_instance() -> Option<Arc<str>> {
    static INSTANCE: OnceLock<Option<Arc<str>>> = OnceLock::new();
    let read = || {
        let value = std::env::var_os("SOLOIST_INSTANCE")?;
        let instance: String = value.to_string_lossy().trim().chars().take(LONGEST).collect();
        (!instance.is_empty()).then(|| instance.into())
    };
    INSTANCE.get_or_init(read).clone()
}

/// Returns the text for a process, as in `web-1, pid 4242` or `worker, pid 1, instance web-1`.
pub(crate) fn process_in_words(host: &str, pid: u32, instance: Option<&str>) -> String {
    let instance = instance.map(|instance| format!(", instance {}", Named(instance))).unwrap_or_default();
    format!("{}, pid {pid}{instance}", OneLine(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_back_whatever_is_in_its_words() {
        let plain = Label { application: Some("shop".into()), instance: Some("blue".into()), ..Label::default() };
        assert_eq!(text("web-1", &plain), "web-1 instance=blue app=shop");
        let reason = Label { reason: Some("the table is migrated".into()), ..plain };
        assert_eq!(text("web-1", &reason), "web-1 instance=blue app=shop (the table is migrated)");
        let timetable = Label { timetable: Some("hourly, UTC".into()), ..reason.clone() };
        assert_eq!(
            text("web-1", &timetable),
            "web-1 instance=blue app=shop timetable=hourly,%20UTC; (the table is migrated)"
        );
        let words = ["a", "a b", " app=x", " (x)", "50%", "%41", "é 😀", "instance=y", "a\nb\u{1b}", "x)"];
        let all = || words.iter().map(|word| Some(Arc::<str>::from(*word))).chain([None]);
        for host in words {
            for (application, instance) in all().flat_map(|application| all().map(move |it| (application.clone(), it)))
            {
                for reason in all().chain([Some(" app=x instance=y (z".into())]) {
                    for timetable in [None, Some("hourly; app=x (y), %20".into())] {
                        let (application, instance) = (application.clone(), instance.clone());
                        let reason = reason.clone();
                        let label = Label { application, instance, timetable, reason };
                        assert_eq!(parse(text(host, &label).into()), (host.into(), label));
                    }
                }
            }
        }
    }

    #[test]
    fn the_end_of_a_reason_may_be_cut_off_and_a_host_alone_is_a_text() {
        let (host, label) = parse("web-1 app=shop (the table is mi".into());
        assert_eq!((&*host, label.application.as_deref()), ("web-1", Some("shop")));
        assert_eq!(label.reason.as_deref(), Some("the table is mi"));
        let (_, label) = parse("web-1 app=shop timetable=hourly".into());
        assert_eq!((label.application.as_deref(), label.timetable), (Some("shop"), None));
        assert_eq!(parse("web-1".into()), ("web-1".into(), Label::default()));
        assert_eq!(parse("the host".into()), ("the host".into(), Label::default()));
    }

    #[test]
    fn a_process_in_words_shows_all_of_itself() {
        let process = |instance| process_in_words("worker", 1, instance);
        assert_eq!(process(None), "worker, pid 1");
        assert_eq!(process(Some("web-1")), "worker, pid 1, instance web-1");
        assert_eq!(process(Some("web 1\n")), r"worker, pid 1, instance `web 1\n`");
    }
}
