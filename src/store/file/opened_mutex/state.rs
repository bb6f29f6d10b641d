//! The state of a mutex as text: the last token, and an entry for the lease, each claim and each marker.
//!
//! ```text
//! soloist-state v1
//! name reports
//! last 1772366407000001
//! until 2026-03-01T12:01:07.000000000Z alive group -         ⇥lease/reports⇥life 0 inode 131074⇥host web-1 app=shop⇥pid 4242 in 4026531836⇥since …
//! until 2026-03-01T12:15:07.000000000Z fixed⇥claim/reports/reports/2026-03-01T12:00:00Z⇥host web-1⇥since …
//! end
//! ```
//!
//! A grant writes the whole text anew. If the text is shorter than a block, zeros fill the rest of the block. The line
//! of each entry begins with a head, and the length of this head never changes. Later changes overwrite the head in
//! place, which needs no room on the disk. Each head lies within one page of memory, so the write of a head is never
//! cut: a process that is killed has written the whole head, or nothing of it. A power loss may damage a text. If the
//! end of the text is lost, the line `end` is missing.

use std::fmt::Write;
use std::iter;
use std::ops::Range;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::base::escape::{decoded_text, percent_encoded};
use crate::lease::{holder::Holder, name::MutexName, token::FencingToken};
use crate::store::file::life_file::{LifeId, pid_namespace};

/// The format: the first line of every state.
pub(crate) const MAGIC: &str = "soloist-state v1\n";
const END: &str = "end\n";

/// The size of a page of memory, in bytes. A write within one page is never cut, even if the process is killed.
pub(crate) const BLOCK: usize = 4096;

// The columns of a head. The head of a claim or a marker is shorter: it ends after the word, which is `alive` in this
// example.
//
// until 2026-03-01T12:01:07.000000000Z alive group 4242      ⇥lease/reports⇥…
// 0     6                            36 37 42              59
const UNTIL: Range<usize> = 6..36;
const WORD: Range<usize> = 37..42;
/// The largest length of a head, in bytes.
const HEAD_MAX: usize = 64;

/// The state of a mutex. An empty text means that nothing was ever granted.
#[derive(Default)]
pub(crate) struct MutexState {
    text: String,
}

/// The holder of a name, and how long the name is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateEntry {
    pub(crate) holder: Holder,
    pub(crate) lasts: Lasts,
    /// The life file of a lease.
    pub(crate) life: Option<LifeId>,
    /// The [PID namespace](pid_namespace) of the holder.
    pub(crate) pid_namespace: u64,
    /// The offset of the entry's line in the text. The line begins with the head.
    at: usize,
}

/// The rule for how long a name is held. In the state, the word after the deadline names the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasts {
    /// The name is held until its deadline, but only while its life file is locked.
    Alive,
    /// The name is held while its life file is locked, even after its deadline: a command may have inherited the life
    /// file.
    Bound,
    /// A claim, a marker, or a lease under a minimum hold: the name is held until its deadline.
    Fixed,
    /// The name is not held any more: it was released.
    Ended,
}

/// The error for a text that is not a state of this format.
pub(crate) struct OtherFormat;

impl MutexState {
    /// Parses a state. Returns `None` if `bytes` is empty, or if the state is damaged.
    pub(crate) fn read(bytes: Vec<u8>) -> Result<Option<Self>, OtherFormat> {
        let begun = &bytes[..bytes.len().min(MAGIC.len())];
        if !MAGIC.as_bytes().starts_with(begun) && bytes.iter().any(|byte| *byte != 0) {
            return Err(OtherFormat);
        }
        let text = String::from_utf8(bytes).ok();
        let state = text.map(|mut text| {
            text.truncate(text.trim_end_matches('\0').len());
            Self { text }
        });
        let is_whole =
            |state: &Self| state.text.ends_with("\nend\n") && state.mutex().is_some() && state.last().is_some();
        Ok(state.filter(is_whole))
    }

    pub(crate) fn mutex(&self) -> Option<String> {
        decoded_text(self.header("name ")?)
    }

    /// Returns the token of the last grant.
    pub(crate) fn last(&self) -> Option<FencingToken> {
        self.header("last ")?.parse().ok().map(FencingToken::new)
    }

    fn header(&self, word: &str) -> Option<&str> {
        self.text.lines().take(3).find_map(|line| line.strip_prefix(word))
    }

    /// Returns the entry of a name, even if the name is not held any more. If the entry is damaged, returns the entry's
    /// line as an error.
    pub(crate) fn find(&self, name: &MutexName) -> Result<Option<StateEntry>, &str> {
        let name = escaped(&name.to_string());
        let line = self.lines().find(|(_, line)| is_of(line, &name));
        line.map(|(at, line)| StateEntry::of_line(at, line).ok_or(line)).transpose()
    }

    /// Returns the markers that have an entry, even if they are not held any more. Damaged lines are left out.
    pub(crate) fn marks(&self) -> impl Iterator<Item = MutexName> {
        self.lines().filter_map(|(at, line)| {
            StateEntry::of_line(at, line)?;
            let name: MutexName = decoded_text(line.split('\t').nth(1)?)?.parse().ok()?;
            name.marked().is_some().then_some(name)
        })
    }

    /// Returns the lines of the entries, with their offsets.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut next = 0;
        let lines = self.text.split_inclusive('\n').map(move |line| {
            let at = next;
            next += line.len();
            (at, line)
        });
        lines.skip(3).filter(|(_, line)| *line != END && !line.trim_ascii().is_empty())
    }

    /// Returns the text of the state after a grant. It has the entries `granted`, and the old entries with other names
    /// that may still be held.
    pub(crate) fn with_grant(
        &self,
        mutex: &str,
        token: FencingToken,
        granted: &[(&MutexName, StateEntry)],
        now: DateTime<Utc>,
    ) -> String {
        let now = stamp(now);
        let names: Vec<String> = granted.iter().map(|(name, _)| escaped(&name.to_string())).collect();
        let new: Vec<String> = granted.iter().zip(&names).map(|((_, entry), name)| entry.to_line(name)).collect();
        let is_replaced = |line: &str| names.iter().any(|name| is_of(line, name));
        let kept = self.lines().map(|(_, line)| line).filter(|line| may_be_held(line, &now) && !is_replaced(line));
        // The lease comes first, so that people find it.
        let (lease, others): (Vec<&str>, Vec<&str>) = kept.chain(new.iter().map(String::as_str)).partition(is_of_lease);
        let mut text = String::with_capacity(self.text.len() + 2 * BLOCK);
        let _ = write!(text, "{MAGIC}name {}\nlast {token}\n", escaped(mutex));
        for line in lease.into_iter().chain(others) {
            let room = BLOCK - text.len() % BLOCK;
            if room < HEAD_MAX {
                text.extend(iter::repeat_n(' ', room - 1).chain(['\n']));
            }
            text.push_str(line);
        }
        text + END
    }
}

impl StateEntry {
    /// Makes the entry for what this process was granted.
    pub(crate) fn new(holder: Holder, life: Option<LifeId>) -> Self {
        let lasts = if life.is_some() { Lasts::Alive } else { Lasts::Fixed };
        Self { holder, lasts, life, pid_namespace: pid_namespace(), at: 0 }
    }

    pub(crate) fn lasting(self, lasts: Lasts) -> Self {
        Self { lasts, ..self }
    }

    pub(crate) fn with_holder(self, change: impl FnOnce(Holder) -> Holder) -> Self {
        Self { holder: change(self.holder), ..self }
    }

    /// Returns the offset of the entry's line, and the head of the line.
    pub(crate) fn head(&self) -> (u64, String) {
        let mut head = format!("until {} {}", stamp(self.holder.until()), self.lasts.word());
        if self.life.is_some() {
            let group = self.holder.process_group().map_or_else(|| "-".to_owned(), |group| group.to_string());
            let _ = write!(head, " group {group:<10}");
        }
        (self.at as u64, head)
    }

    fn to_line(&self, name: &str) -> String {
        let (holder, (_, mut line)) = (&self.holder, self.head());
        let _ = write!(line, "\t{name}");
        if let Some(LifeId { generation, inode }) = self.life {
            let _ = write!(line, "\tlife {generation} inode {inode}");
        }
        let (host, since) = (escaped(&holder.text()), stamp(holder.since()));
        let _ = write!(line, "\thost {host}\tpid {} in {}\tsince {since}", holder.pid(), self.pid_namespace);
        let _ = write!(line, "\ttoken {}\towner {}", holder.token(), holder.owner());
        if let Some(occurrence) = holder.occurrence() {
            let _ = write!(line, "\tfor {}", stamp(occurrence));
        }
        line + "\n"
    }

    fn of_line(at: usize, line: &str) -> Option<Self> {
        let head = line.split('\t').next()?;
        let fields = line.trim_end_matches('\n').split('\t').skip(2);
        let field = |word: &str| fields.clone().find_map(|field| field.strip_prefix(word));
        let id = match field("life ") {
            None => None,
            Some(id) => {
                let (generation, inode) = id.split_once(" inode ")?;
                Some(LifeId { generation: generation.parse().ok()?, inode: inode.parse().ok()? })
            }
        };
        let owner = field("owner ")?.parse().ok()?;
        let token = FencingToken::new(field("token ")?.parse().ok()?);
        let since = parse_stamp(field("since ")?)?;
        let until = parse_stamp(line.get(UNTIL)?)?;
        let mut holder = Holder::new(owner, token, decoded_text(field("host ")?)?, since, until)
            .with_occurrence(field("for ").and_then(parse_stamp));
        if let Some(group) = head.split_once(" group ").and_then(|(_, group)| group.trim_end().parse().ok()) {
            holder = holder.with_process_group(group);
        }
        let (_, pid_namespace) = field("pid ")?.split_once(" in ")?;
        Some(Self { holder, lasts: Lasts::of_line(line)?, life: id, pid_namespace: pid_namespace.parse().ok()?, at })
    }
}

impl Lasts {
    fn word(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Bound => "bound",
            Self::Fixed => "fixed",
            Self::Ended => "ended",
        }
    }

    fn of_line(line: &str) -> Option<Self> {
        let word = line.starts_with("until ").then(|| line.get(WORD))??;
        [Self::Alive, Self::Bound, Self::Fixed, Self::Ended].into_iter().find(|lasts| lasts.word() == word)
    }
}

/// Returns whether this line is the entry of `name`, which must be escaped. To unescape the name of each line would be
/// slow, because a state may have many long names.
fn is_of(line: &str, name: &str) -> bool {
    let behind_head = line.get(WORD.end..).and_then(|rest| rest.split_once('\t'));
    behind_head.and_then(|(_, rest)| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with('\t'))
}

fn is_of_lease(line: &&str) -> bool {
    line.get(WORD.end..).is_some_and(|rest| rest.starts_with(" group "))
}

/// Returns whether the name of this line may still be held. The life file is not checked. So the answer can be `true`
/// although the life file is unlocked already.
fn may_be_held(line: &str, now: &str) -> bool {
    match Lasts::of_line(line) {
        Some(Lasts::Alive | Lasts::Bound) => true,
        Some(Lasts::Fixed) => line.get(UNTIL).is_some_and(|until| until > now),
        Some(Lasts::Ended) | None => false,
    }
}

/// Returns `text` on one line: each byte of a control character and of `%` becomes `%XX`.
pub(crate) fn escaped(text: &str) -> String {
    percent_encoded(text, &[]).into_owned()
}

/// Returns a time as RFC 3339. All texts have one width, so that they sort in the order of their times.
fn stamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Nanos, true)
}

fn parse_stamp(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::owner::Owner;

    fn holder(host: &str) -> Holder {
        let since = DateTime::from_timestamp_nanos(1_772_366_400_000_000_001);
        Holder::new(Owner::unique(), FencingToken::new(u64::MAX), host, since, DateTime::from_timestamp_nanos(i64::MAX))
    }

    fn granted(state: &MutexState, granted: &[(&MutexName, StateEntry)], now: DateTime<Utc>) -> MutexState {
        let text = state.with_grant("reports", FencingToken::new(7), granted, now);
        MutexState::read(text.into_bytes()).ok().flatten().expect("it is whole")
    }

    #[test]
    fn an_entry_is_read_back_whatever_is_in_it() {
        let lease = MutexName::lease("reports\n50 %\t").unwrap();
        let claim = lease.claim("import\nall", DateTime::UNIX_EPOCH);
        let life = Some(LifeId { generation: u32::MAX, inode: u64::MAX });
        let full = holder("web%091 instance=a%20b app=50%25 (the table\tis migrated (again))")
            .with_process_group(u32::MAX)
            .with_occurrence(DateTime::UNIX_EPOCH);
        for lasts in [Lasts::Alive, Lasts::Bound, Lasts::Fixed, Lasts::Ended] {
            let entry = StateEntry::new(full.clone(), life).lasting(lasts);
            let of_claim = StateEntry::new(holder("web-1"), None);
            let state = granted(
                &MutexState::default(),
                &[(&claim, of_claim.clone()), (&lease, entry.clone())],
                DateTime::UNIX_EPOCH,
            );
            let read = state.find(&lease).ok().flatten().expect("it was written");
            assert_eq!(StateEntry { at: 0, ..read.clone() }, entry);
            assert_eq!(StateEntry { at: 0, ..state.find(&claim).ok().flatten().unwrap() }, of_claim);
            assert_eq!(state.find(&MutexName::lease("reports").unwrap()), Ok(None));
            let (at, head) =
                read.lasting(Lasts::Ended).with_holder(|holder| holder.held_until(DateTime::UNIX_EPOCH)).head();
            let mut text = state.text.clone();
            let at = usize::try_from(at).unwrap();
            text.replace_range(at..at + head.len(), &head);
            assert_eq!(text.len(), state.text.len());
            assert!(text[at + head.len()..].starts_with("\tlease/"), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_cut_says_nothing_and_another_format_is_refused() {
        let name = MutexName::lease("reports").unwrap();
        let state =
            granted(&MutexState::default(), &[(&name, StateEntry::new(holder("web-1"), None))], DateTime::UNIX_EPOCH);
        for len in 0..state.text.len() {
            assert!(matches!(MutexState::read(state.text.as_bytes()[..len].to_vec()), Ok(None)), "{len}");
        }
        assert!(matches!(MutexState::read(vec![0; 700]), Ok(None)));
        for foreign in [&b"root:x:0:0"[..], b"soloist-state v2\nname reports\n", &[&[0; 700][..], b"a disk"].concat()] {
            assert!(MutexState::read(foreign.to_vec()).is_err());
        }
    }

    #[test]
    fn no_head_lies_in_two_pages_and_what_has_ended_goes_with_the_next_grant() {
        let name = MutexName::lease("reports").unwrap();
        let claims: Vec<MutexName> = (0..500).map(|at| name.mark("reports", "x".repeat(at))).collect();
        let mut state = MutexState::default();
        for claim in &claims {
            state = granted(&state, &[(claim, StateEntry::new(holder("web-1"), None))], DateTime::UNIX_EPOCH);
        }
        let mut pages = 0;
        for claim in &claims {
            let (at, head) = state.find(claim).ok().flatten().expect("it is held").head();
            let (first, last) = (at / BLOCK as u64, (at + head.len() as u64 - 1) / BLOCK as u64);
            assert_eq!(first, last);
            pages = pages.max(last);
        }
        assert!(pages > 20, "{pages}");
        let later = DateTime::from_timestamp_nanos(i64::MAX);
        state = granted(&state, &[(&name, StateEntry::new(holder("web-1"), None))], later);
        assert_eq!(state.lines().count(), 1);
    }

    #[test]
    fn a_time_is_read_back_to_the_nanosecond_and_keeps_its_width() {
        for nanos in [0, 1, 1_772_366_400_123_456_789, -1, i64::MIN, i64::MAX] {
            let time = DateTime::from_timestamp_nanos(nanos);
            let text = stamp(time);
            assert_eq!(text.len(), 30);
            assert_eq!(parse_stamp(&text), Some(time), "{text}");
        }
        let leap_second = DateTime::from_timestamp(1_483_228_799, 1_500_000_000).unwrap();
        assert_eq!(parse_stamp(&stamp(leap_second)), Some(leap_second));
    }

    #[test]
    fn an_escaped_text_stays_on_its_line() {
        assert_eq!(escaped("db:backup {1}/é 😀"), "db:backup {1}/é 😀");
        assert_eq!(escaped("a\0b\nc%41\u{85}\x7f"), "a%00b%0Ac%2541%C2%85%7F");
        assert_eq!(decoded_text("a%00b%0Ac%2541%C2%85%7F").unwrap(), "a\0b\nc%41\u{85}\x7f");
    }
}
