//! A server of MySQL or PostgreSQL that sends random replies, from the handshake on. Each request ends in an error
//! or in an answer, and nothing is granted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use soloist::store::Slot;
use soloist::store::{Admission, Admitted, LeaseRequest, Names};
use soloist::time::Clock;
use soloist::{EventMutex, FencingToken, MutexError, MutexName};
use soloist::{MysqlMutex, PostgresMutex, Term};

use super::Rounds;
use super::bytes::Damage;

const TIMEOUT: Duration = Duration::from_millis(100);
const IN_TIME: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Mysql,
    Postgres,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Exists,
    Admit,
    Holder,
    List,
    Extend,
    Forget,
    Break,
    Check,
}

const ACTS: [Act; 8] =
    [Act::Exists, Act::Admit, Act::Holder, Act::List, Act::Extend, Act::Forget, Act::Break, Act::Check];

/// The messages of a server: the first at once, then one after each message of the client, repeated from the
/// beginning.
#[derive(Clone, Debug)]
struct Play {
    kind: Kind,
    said: Vec<Vec<u8>>,
}

struct Hostile {
    address: SocketAddr,
    play: Arc<Mutex<Play>>,
}

impl Hostile {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let play = Arc::new(Mutex::new(Play { kind: Kind::Mysql, said: Vec::new() }));
        let shared = Arc::clone(&play);
        // Until the process ends.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let play = shared.lock().expect("nothing panics while it is held").clone();
                thread::spawn(move || serve(stream, &play));
            }
        });
        Self { address, play }
    }
}

fn serve(mut stream: TcpStream, play: &Play) -> Option<()> {
    let mut is_first = play.kind == Kind::Mysql;
    for said in play.said.iter().cycle() {
        if !std::mem::take(&mut is_first) && stream.read(&mut [0; 8_192]).ok()? == 0 {
            return None;
        }
        stream.write_all(said).ok()?;
    }
    None
}

/// Returns a packet of MySQL's protocol.
fn packet(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("it is short").to_le_bytes();
    [&length[..3], &[number], bytes].concat()
}

/// Returns a message of PostgreSQL's protocol.
fn message(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len() + 4).expect("it is short").to_be_bytes();
    [&[kind], &length[..], bytes].concat()
}

/// Returns the messages of a correct server: greeting, login, replies.
fn well_formed(kind: Kind) -> Vec<Vec<u8>> {
    match kind {
        Kind::Mysql => {
            let greeting = b"\x0a8.0.36\0\x01\0\0\0abcdefgh\0\xff\xf7\x21\x02\0\xff\x81\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0";
            let ok = b"\0\0\0\x02\0\0\0";
            let column = b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x14\0\0\0\x08\0\0\0\0\0";
            let eof = b"\xfe\0\0\x02\0";
            let row = |text: &[u8]| [&[u8::try_from(text.len()).expect("it is short")], text].concat();
            let answer = |text: &[u8]| {
                [packet(1, b"\x01"), packet(2, column), packet(3, eof), packet(4, &row(text)), packet(5, eof)].concat()
            };
            vec![
                packet(0, greeting),
                packet(2, ok),
                packet(1, ok),
                answer(b"1"),
                answer(b"16777216"),
                packet(1, b"\xff\x28\x04#42000no"),
                packet(1, b"\xfb/etc/passwd"),
                packet(2, b"\xfemysql_clear_password\0"),
            ]
        }
        Kind::Postgres => {
            let ready = || message(b'Z', b"I");
            let parameter = message(b'S', b"server_version\x0016.1\0");
            let let_in =
                [message(b'R', b"\0\0\0\0"), parameter, message(b'K', b"\0\0\0\x01\0\0\0\x02"), ready()].concat();
            let columns = message(b'T', b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0");
            let row = message(b'D', b"\0\x01\0\0\0\x011");
            vec![
                let_in,
                [columns, row, message(b'C', b"SELECT 1\0"), ready()].concat(),
                [message(b'C', b"SET\0"), ready()].concat(),
                [message(b'E', b"SERROR\0C42601\0Mno\0\0"), ready()].concat(),
                message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"),
                message(b'R', b"\0\0\0\x0br=a,s=b,i=4294967295"),
                message(b'A', b"\0\0\0\x01a\0b\0"),
                message(b'N', b"SNOTICE\0C00000\0Mno\0\0"),
            ]
        }
    }
}

/// Limits the announced number of columns. MySQL's driver allocates as many as are announced, and a failed
/// allocation ends the process.
fn with_few_columns(mut bytes: Vec<u8>) -> Vec<u8> {
    const LONG_NUMBER: u8 = 0xfe;

    if bytes.len() > 12 && bytes[4] == LONG_NUMBER {
        bytes[4] -= 1;
    }
    bytes
}

fn plays() -> impl Strategy<Value = Play> {
    select(vec![Kind::Mysql, Kind::Postgres]).prop_flat_map(|kind| {
        let known = select(well_formed(kind));
        let damaged = (select(well_formed(kind)), Damage::some())
            .prop_map(|(bytes, damages)| Damage::all_done_to(&bytes, &damages));
        let framed = (any::<u8>(), vec(any::<u8>(), 0..60)).prop_map(move |(first, bytes)| match kind {
            Kind::Mysql => packet(first % 4, &bytes),
            Kind::Postgres => message(b"RSKZTDCEAN1nIWGHvds"[usize::from(first) % 19], &bytes),
        });
        let said = prop_oneof![3 => known, 4 => damaged, 2 => framed, 1 => vec(any::<u8>(), 0..200)];
        let said = said.prop_map(move |bytes| if kind == Kind::Mysql { with_few_columns(bytes) } else { bytes });
        // Most are let in first.
        let begin = select(vec![0, 2, 2, 2]).prop_map(move |known| {
            let known = if kind == Kind::Mysql { known } else { known / 2 };
            well_formed(kind)[..known].to_vec()
        });
        (begin, vec(said, 1..8)).prop_map(move |(begin, said)| Play { kind, said: [begin, said].concat() })
    })
}

fn judge(hostile: &Hostile, play: &Play, acts: &[Act]) {
    *hostile.play.lock().expect("nothing panics while it is held") = play.clone();
    let at = hostile.address;
    let mutex: Box<dyn EventMutex> = match play.kind {
        Kind::Mysql => {
            let url = format!("mysql://user:kqzxvwyp@{at}/app");
            Box::new(MysqlMutex::builder(&url).timeout(TIMEOUT).build().expect("a url"))
        }
        Kind::Postgres => {
            let url = format!("postgres://user:kqzxvwyp@{at}/app");
            Box::new(PostgresMutex::builder(&url).timeout(TIMEOUT).build().expect("a url"))
        }
    };
    let name = MutexName::lease("fuzzed").expect("a name");
    let request =
        LeaseRequest::new(name.clone(), Term::new(Duration::from_secs(60)).expect("a term"), &Clock::system());
    let lease = request.granted(FencingToken::new(1));
    let began = Instant::now();
    let answers: Vec<Result<(), MutexError>> = acts
        .iter()
        .map(|act| match act {
            Act::Exists => mutex.exists(&name).map(drop),
            Act::Admit => Admission::lease_only(request.clone()).ask(&*mutex).map(|admitted| {
                assert!(!matches!(admitted, Admitted::Granted(_)), "it was granted by nonsense: {admitted:?}");
            }),
            Act::Holder => mutex.held(Names::of(&name)).map(drop),
            Act::List => mutex.held(Names::LeasesWithPrefix("")).map(drop),
            Act::Extend => {
                let mut slot = Slot::new(lease.clone());
                mutex.extend(std::slice::from_mut(&mut slot), lease.term());
                slot.answer().cloned().expect("it is answered").map(drop)
            }
            Act::Forget => mutex.forget(&lease).map(drop),
            Act::Break => mutex.break_lease(&name).map(drop),
            Act::Check => mutex.check().map(drop),
        })
        .collect();
    drop(mutex);
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        let said = format!("{error} {error:?}");
        assert!(!said.contains("kqzxvwyp") && said.len() < 100_000, "{said}");
    }
}

#[test]
fn a_database_that_answers_anything_grants_nothing_by_it() {
    let hostile = Hostile::new();
    let inputs = || (plays(), vec(select(&ACTS[..]), 1..3));
    Rounds { rounds: 3, inputs: 25 }.feed(inputs, move |(play, acts)| judge(&hostile, play, acts));
}

#[test]
fn a_driver_that_panics_at_what_it_hears_is_an_error() {
    let [greeting, let_in, ..] = &well_formed(Kind::Mysql)[..] else { unreachable!("there is more than two") };
    // More columns than there is memory for are announced.
    let announced = packet(1, b"\xfe\x29\x04\x1f\x39\x35\xa6\xb9\x69");
    let play = Play { kind: Kind::Mysql, said: vec![greeting.clone(), let_in.clone(), announced] };
    judge(&Hostile::new(), &play, &[Act::Admit, Act::Exists]);
}
