//! The replies of a server, and the grants in them.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use soloist::FencingToken;

use super::super::bytes::Damage;

/// The welcome of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Manners {
    /// The server greets a client correctly, and sends random replies.
    Polite,
    Rude,
}

pub(super) fn manners() -> impl Strategy<Value = Manners> {
    select(vec![Manners::Polite, Manners::Polite, Manners::Polite, Manners::Rude])
}

/// The reply to one request, and its end.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) reply: Bytes,
    pub(super) end: End,
}

/// The bytes after a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
    None,
    Close,
    Silence,
    /// The reply is repeated without end.
    Endless,
    /// An unrequested grant, on a signal.
    Granting,
}

pub(super) const GRANTED: &[u8] = b"*2\r\n$16\r\n1772366400000000\r\n$16\r\n1772366400000001\r\n";

/// Bytes, shown as text.
#[derive(Clone)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = &self.0[..self.0.len().min(600)];
        write!(f, "b\"{}\" of {}", shown.escape_ascii(), self.0.len())
    }
}

/// A value as Redis writes it, of either protocol.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Line(char, String),
    Text(char, Vec<u8>),
    Many(char, Vec<Reply>),
    /// A length or count without its content.
    Announced(char, String),
}

impl Reply {
    fn write(&self, into: &mut Vec<u8>) {
        match self {
            Self::Line(kind, text) => into.extend(format!("{kind}{text}\r\n").bytes()),
            Self::Announced(kind, count) => into.extend(format!("{kind}{count}\r\n").bytes()),
            Self::Text(kind, text) => {
                into.extend(format!("{kind}{}\r\n", text.len()).bytes());
                into.extend(text);
                into.extend(b"\r\n");
            }
            Self::Many(kind, items) => {
                let count = if matches!(kind, '%' | '|') { items.len() / 2 } else { items.len() };
                into.extend(format!("{kind}{count}\r\n").bytes());
                for item in items {
                    item.write(into);
                }
            }
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    fn text(text: impl Into<Vec<u8>>) -> Self {
        Self::Text('$', text.into())
    }
}

fn numbers() -> impl Strategy<Value = String> {
    let ends =
        ["0", "1", "2", "3", "-1", "-0", "+1", "01", "1e3", "", " 1", "4096", "4097", "2147483648", "4294967296"];
    let more = ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "4611686018427387904"];
    let most = ["18446744073709551615", "99999999999999999999999", "9223372036854775806", "536870912", "536870913"];
    prop_oneof![
        6 => select([&ends[..], &more, &most].concat()).prop_map(str::to_owned),
        1 => any::<i64>().prop_map(|number| number.to_string()),
    ]
}

fn lines() -> impl Strategy<Value = Reply> {
    let errors = [
        "ERR no",
        "NOSCRIPT none",
        "LATE nobody waits",
        "MOVED 1 a:1",
        "CROSSSLOT no",
        "BUSY",
        "LOADING",
        "NOAUTH",
        "OOM",
        "READONLY",
        "WRONGTYPE",
        "",
        " ",
        "ERR \u{1b}[2J",
        "ASK",
        "NOPERM can't run this command",
        "ERR -NOAUTH in a script",
        "é é",
    ];
    prop_oneof![
        3 => numbers().prop_map(|number| Reply::Line(':', number)),
        3 => select(errors.to_vec()).prop_map(|error| Reply::Line('-', error.to_owned())),
        1 => select(vec!["OK", "", "PONG", "QUEUED", "é"]).prop_map(|text| Reply::Line('+', text.to_owned())),
        1 => select(vec!["_", "#t", "#f", "#x", ",1.5", ",nan", ",inf", ",x", "(1", "(x", "_x"]).prop_map(|line| {
            Reply::Line(line.chars().next().expect("it has one"), line[1..].to_owned())
        }),
    ]
}

/// Generates the entry of a lease, or nearly one.
fn entries() -> impl Strategy<Value = Vec<u8>> {
    let tokens = numbers();
    let since = select(vec!["2026-03-01T12:00:00.000Z", "9999-12-31T23:59:60Z", "-1", "+262142-12-31T23:59:59Z", "x"]);
    let owners = select(vec!["0123456789abcdef0123456789abcdef-1", "0-0", "", "1", "é"]);
    (owners, tokens, since).prop_map(|(owner, token, since)| {
        format!("v1 {owner} token={token} term=60000 since={since} host=web-1").into_bytes()
    })
}

fn texts() -> impl Strategy<Value = Reply> {
    let words = ["lease", "claim", "excluded", "LATE", "maxmemory_policy:allkeys-lru\r\nmaxmemory:1\r\n", "role:slave"];
    let text = prop_oneof![
        3 => select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        3 => entries(),
        2 => numbers().prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..40),
        1 => (any::<u8>(), 0_usize..70_000).prop_map(|(byte, count)| vec![byte; count]),
    ];
    (select(vec!['$', '$', '$', '=', '!']), text).prop_map(|(kind, text)| Reply::Text(kind, text))
}

fn values() -> impl Strategy<Value = Reply> {
    let kinds = || select(vec!['*', '*', '*', '*', '%', '~', '>', '|']);
    let announced = (select(vec!['*', '$', '%', '~', '>', '|', '=', '!']), numbers());
    let leaf = prop_oneof![
        4 => lines(),
        4 => texts(),
        1 => announced.prop_map(|(kind, count)| Reply::Announced(kind, count)),
    ];
    leaf.prop_recursive(4, 24, 6, move |inner| {
        (kinds(), vec(inner, 0..6)).prop_map(|(kind, items)| Reply::Many(kind, items))
    })
}

/// Generates nested values.
fn deep() -> impl Strategy<Value = Vec<u8>> {
    let heads =
        vec!["*1\r\n", "*2\r\n", "%1\r\n", ">1\r\n", "|1\r\n", "~1\r\n", "*4096\r\n", "*9223372036854775807\r\n"];
    (select(heads), 1_usize..3_000).prop_map(|(head, depth)| head.repeat(depth).into_bytes())
}

/// Generates replies like those of `admit`, `look`, `extend`, `release` or `EXISTS`, or one number, for any
/// request.
fn plausible() -> impl Strategy<Value = Reply> {
    let digits = || {
        let known = vec!["1772366400000000", "1772366400000001", "0", "9223372036854775807"];
        prop_oneof![4 => select(known).prop_map(str::to_owned), 1 => numbers()].prop_map(Reply::text)
    };
    let what = select(vec!["lease", "claim", "excluded", "other"]).prop_map(Reply::text);
    let refusal = (what, entries(), numbers(), vec(numbers(), 0..2)).prop_map(|(what, entry, left, which)| {
        let numbers = [vec![left], which].concat().into_iter().map(|number| Reply::Line(':', number));
        Reply::Many('*', [what, Reply::text(entry)].into_iter().chain(numbers).collect())
    });
    let of_a_request = prop_oneof![
        3 => digits(),
        3 => refusal,
        1 => entries().prop_map(Reply::text),
        1 => numbers().prop_map(|number| Reply::Line(':', number)),
    ];
    let looked = (entries(), numbers(), digits());
    let number = || numbers().prop_map(|number| Reply::Line(':', number));
    let not_ours = (numbers(), entries(), digits(), any::<bool>()).prop_map(|(at, entry, time, is_taken)| {
        let entry = if is_taken { entry } else { Vec::new() };
        Reply::Many('*', vec![Reply::Line(':', at), Reply::text(entry), time])
    });
    prop_oneof![
        4 => (digits(), vec(of_a_request, 1..5)).prop_map(|(time, replies)| {
            Reply::Many('*', [vec![time], replies].concat())
        }),
        1 => looked.prop_map(|(entry, left, time)| {
            Reply::Many('*', vec![Reply::text(entry), Reply::Line(':', left), time])
        }),
        1 => vec(number(), 0..4).prop_map(|items| Reply::Many('*', items)),
        1 => vec(not_ours, 0..4).prop_map(|items| Reply::Many('*', items)),
        1 => vec(digits(), 0..4).prop_map(|items| Reply::Many('*', items)),
        2 => prop_oneof![number(), digits()],
        1 => digits().prop_map(|time| Reply::Many('*', vec![time])),
    ]
}

pub(super) fn turns() -> impl Strategy<Value = Turn> {
    let replies = prop_oneof![
        4 => plausible().prop_map(|reply| reply.bytes()),
        3 => values().prop_map(|reply| reply.bytes()),
        3 => (plausible(), Damage::some()).prop_map(|(reply, damage)| Damage::all_done_to(&reply.bytes(), &damage)),
        1 => vec(any::<u8>(), 0..60),
        1 => deep(),
        // Further replies, ahead of time.
        1 => vec(values(), 2..5).prop_map(|replies| replies.iter().flat_map(Reply::bytes).collect()),
    ];
    let ends = prop_oneof![
        30 => Just(End::None), 4 => Just(End::Close), 1 => Just(End::Silence), 1 => Just(End::Endless)
    ];
    (replies.prop_map(Bytes), ends).prop_map(|(reply, end)| Turn { reply, end })
}

/// Generates refusals of the first name of a request, and useless replies.
pub(super) fn refusals() -> impl Strategy<Value = Turn> {
    let what = select(vec!["lease", "claim", "excluded", "other"]).prop_map(Reply::text);
    let taken = (what, entries(), numbers()).prop_map(|(what, entry, left)| taken(what, entry, left));
    let flags = select(vec!["0", "1"]).prop_map(|flag| Reply::Line(':', flag.to_owned()));
    let refusals = prop_oneof![3 => taken, 1 => lines(), 2 => flags];
    refusals.prop_map(|refusal| Turn { reply: Bytes(refusal.bytes()), end: End::None })
}

/// Generates refusals, followed by a grant that was not requested.
pub(super) fn refusals_with_more() -> impl Strategy<Value = Turn> {
    let what = select(vec!["lease", "claim", "excluded"]).prop_map(Reply::text);
    (what, entries()).prop_map(|(what, entry)| {
        let refusal = taken(what, entry, "1".to_owned());
        Turn { reply: Bytes([refusal.bytes(), Reply::Many('*', granted()).bytes()].concat()), end: End::None }
    })
}

fn taken(what: Reply, entry: Vec<u8>, left: String) -> Reply {
    let refusal = Reply::Many('*', vec![what, Reply::text(entry), Reply::Line(':', left)]);
    Reply::Many('*', vec![Reply::text("1772366400000000"), refusal])
}

fn granted() -> Vec<Reply> {
    ["1772366400000000", "1772366400000001"].map(Reply::text).to_vec()
}

/// Returns whether the bytes contain the grant of an admission with this token. A grant may begin anywhere, since
/// bytes beyond a reply are dropped. Grants of others do not count: each caller has an owner of its own.
pub(super) fn is_granted_in(said: &[u8], token: FencingToken) -> bool {
    (0..said.len()).any(|at| grants(&said[at..]).is_some_and(|tokens| tokens.contains(&token.get())))
}

/// Returns the tokens, if the bytes begin with a reply of the script: a list of its time, and of its replies to each request.
fn grants(mut said: &[u8]) -> Option<Vec<u64>> {
    let count = number_after(b'*', &mut said)?;
    digits(&mut said)?;
    let mut tokens = Vec::new();
    for _ in 1..count {
        let mut token = said;
        tokens.extend(digits(&mut token).map(i64::unsigned_abs));
        value(&mut said)?;
    }
    Some(tokens)
}

/// Reads a value of any kind.
fn value(said: &mut &[u8]) -> Option<()> {
    match *said.first()? {
        kind @ (b'$' | b'=' | b'!') => {
            let length = usize::try_from(number_after(kind, said)?).ok();
            *said = match length {
                Some(length) => said.get(length..)?.strip_prefix(b"\r\n")?,
                None => said, // It is null.
            };
            Some(())
        }
        kind @ (b'*' | b'~' | b'>') => (0..number_after(kind, said)?).try_for_each(|_| value(said)),
        kind @ (b'%' | b'|') => (0..2 * number_after(kind, said)?.min(1_000)).try_for_each(|_| value(said)),
        _ => {
            let end = said.windows(2).position(|end| end == b"\r\n")?;
            *said = &said[end + 2..];
            Some(())
        }
    }
}

fn digits(said: &mut &[u8]) -> Option<i64> {
    str::from_utf8(text(said)?).ok()?.parse().ok().filter(|number| *number >= 0)
}

fn text<'a>(said: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number_after(b'$', said)?).ok()?;
    let (text, rest) = said.split_at_checked(length)?;
    *said = rest.strip_prefix(b"\r\n")?;
    Some(text)
}

/// Reads the rest of a line that begins with this byte, as the driver does.
fn number_after(kind: u8, said: &mut &[u8]) -> Option<i64> {
    let line = said.strip_prefix(&[kind])?;
    // Longer is no number here.
    let end = line.windows(2).take(1_000).position(|end| end == b"\r\n")?;
    *said = &line[end + 2..];
    str::from_utf8(&line[..end]).ok()?.trim().parse().ok()
}
