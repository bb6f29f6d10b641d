//! A tick of protected events on a server of the bench's own, over loopback, on the system's clock, beside its floors: what
//! a raw client needs for the same.
//!
//! | | floors |
//! | --- | --- |
//! | in order | one script for each event that releases the last and admits the next: through the blocking client; through a socket of the kind that the store uses |
//! | in background | a hundred events at a time: pipelined `SET`s and `DEL`s, which compare no owner and take back no claim; one script for a hundred |
//!
//! Whoever runs one after another without such a script makes four round trips: is it held, claim, create, forget.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use redis::{Cmd, Connection, Parser, Pipeline, Value, cmd};
use soloist::{Event, RedisMutex, Schedule};

/// The servers of the tests.
#[allow(dead_code)]
#[path = "../tests/it/servers"]
mod servers {
    pub(crate) mod clock;
    mod process;
    pub(crate) mod redis;
    pub(crate) mod resp;
    mod tls;
}

const IN_ORDER: u64 = 100;
const IN_ORDER_BESIDE_FLOORS: u64 = 200;
const IN_BACKGROUND: u64 = 1000;
const PIPELINE: u64 = 100;

/// How often each tick is measured in turns with its floors.
const ROUNDS: i64 = 100;

fn schedule(url: &str, prefix: &str, events: u64, attributes: fn(Event) -> Event) -> Schedule {
    let mut schedule = Schedule::new(RedisMutex::builder(url).prefix(prefix).build().expect("the url is in order"));
    for number in 0..events {
        let event = Event::call(format!("event:{number}"), |_| {}).every_minute().on_one_server().without_overlapping();
        schedule.add(event.apply(attributes)).expect("the event is in order");
    }
    schedule
}

/// What an entry says: who holds it, under which token, since when.
const ENTRY: &str = "2f4a9f0e8f0b4b0c9a570e7a6f3d51c8-4711-1234 token=1772366400000000 term=60000 since=2026-03-01T12:00:00.000Z \
                     pid=4711 host=web-1";

/// The parts of it between which a script puts the token.
const OWNER: &str = "2f4a9f0e8f0b4b0c9a570e7a6f3d51c8-4711-1234";
const HOLDER: &str = " term=60000 since=2026-03-01T12:00:00.000Z pid=4711 host=web-1";

/// Releases what the last event held, if it is still its own, and admits the next one.
const NEXT_IN_ORDER: &str = r"
local call, keys, args = redis.call, KEYS, ARGV
local last = call('GET', keys[4])
if last and string.find(last, args[1], 1, true) == 1 then
  call('DEL', keys[4])
end
local time = call('TIME')
local token = time[1] .. string.sub('00000' .. time[2], -6)
local before = call('SET', keys[1], token, 'PX', 2592000000, 'GET')
if before and before >= token then
  token = string.format('%.0f', tonumber(before) + 1)
  call('SET', keys[1], token, 'PX', 2592000000)
end
local entry = args[1] .. ' token=' .. token .. args[2]
if not call('SET', keys[2], entry, 'NX', 'PX', 3900000) then
  return 'claim'
end
if not call('SET', keys[3], entry, 'NX', 'PX', 60000) then
  call('DEL', keys[2])
  return 'lease'
end
return token
";

/// Admits many at once, each by its claim and its lease.
const ADMIT_MANY: &str = r"
local call, keys, args = redis.call, KEYS, ARGV
local time = call('TIME')
local token = time[1] .. string.sub('00000' .. time[2], -6)
local before = call('SET', keys[1], token, 'PX', 2592000000, 'GET')
if before and before >= token then
  token = string.format('%.0f', tonumber(before) + 1)
  call('SET', keys[1], token, 'PX', 2592000000)
end
local entry, refused = ' token=' .. token .. args[1], {}
for at = 2, #keys, 2 do
  local entry = args[at / 2 + 1] .. entry
  if not call('SET', keys[at], entry, 'NX', 'PX', 3900000) then
    refused[#refused + 1] = at
  elseif not call('SET', keys[at + 1], entry, 'NX', 'PX', 60000) then
    call('DEL', keys[at])
    refused[#refused + 1] = -at
  end
end
return { token, refused }
";

/// Releases many at once, each if it is its owner's.
const RELEASE_MANY: &str = r"
local entries, ours = redis.call('MGET', unpack(KEYS)), {}
for at = 1, #KEYS do
  if entries[at] and string.find(entries[at], ARGV[at], 1, true) == 1 then
    ours[#ours + 1] = KEYS[at]
  end
end
if #ours > 0 then
  return redis.call('DEL', unpack(ours))
end
";

fn load(raw: &mut Connection, script: &str) -> String {
    cmd("SCRIPT").arg("LOAD").arg(script).query(raw).expect("the server takes it")
}

/// A socket without a driver around it: what is written is counted by hand, and the driver's parser reads the answer.
struct Socket {
    stream: TcpStream,
    parser: Parser,
    request: Vec<u8>,
}

impl Socket {
    fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server is there");
        stream.set_nodelay(true).expect("it is a socket");
        Self { stream, parser: Parser::new(), request: Vec::new() }
    }

    fn ask(&mut self, command: &[&str]) -> Value {
        self.request.clear();
        write!(self.request, "*{}\r\n", command.len()).expect("there is memory");
        for word in command {
            write!(self.request, "${}\r\n{word}\r\n", word.len()).expect("there is memory");
        }
        self.send()
    }

    fn send(&mut self) -> Value {
        self.stream.write_all(&self.request).expect("the server listens");
        self.parser.parse_value(&mut self.stream).expect("the server answers")
    }
}

fn text(minute: DateTime<Utc>) -> String {
    minute.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn lease(number: u64) -> String {
    format!("raw:lease:{{event:{number}}}")
}

fn claim(number: u64, minute: &str) -> String {
    format!("raw:claim:{{event:{number}}}:{minute}")
}

fn assert_is_token(answer: &Value) {
    assert!(matches!(answer, Value::BulkString(token) if token.len() == 16), "{answer:?}");
}

fn in_order_by_client(raw: &mut Connection, script: &str, minute: DateTime<Utc>) {
    let (mut last, minute) = (lease(IN_ORDER_BESIDE_FLOORS), text(minute));
    for number in 0..IN_ORDER_BESIDE_FLOORS {
        let (lease, claim) = (lease(number), claim(number, &minute));
        let mut call = cmd("EVALSHA");
        call.arg(script).arg(4).arg("raw:token").arg(claim).arg(&lease).arg(last).arg(OWNER).arg(HOLDER);
        assert_is_token(&call.query(raw).expect("the server answers"));
        last = lease;
    }
    let _: Value = cmd("DEL").arg(last).query(raw).expect("the server answers");
}

fn in_order_by_socket(socket: &mut Socket, script: &str, minute: DateTime<Utc>) {
    let (mut last, minute) = (lease(IN_ORDER_BESIDE_FLOORS), text(minute));
    for number in 0..IN_ORDER_BESIDE_FLOORS {
        let (lease, claim) = (lease(number), claim(number, &minute));
        let answer = socket.ask(&["EVALSHA", script, "4", "raw:token", &claim, &lease, &last, OWNER, HOLDER]);
        assert_is_token(&answer);
        last = lease;
    }
    socket.ask(&["DEL", &last]);
}

fn set(pipeline: &mut Pipeline, key: &str) {
    pipeline.cmd("SET").arg(key).arg(ENTRY).arg("NX").arg("PX").arg(60_000);
}

fn four_round_trips(raw: &mut Connection, minute: DateTime<Utc>) {
    let minute = text(minute);
    for number in 0..IN_ORDER {
        let (lease, claim) = (lease(number), claim(number, &minute));
        let mut ask = |command: &Cmd| command.query::<Value>(raw).expect("the server answers");
        ask(cmd("EXISTS").arg(&lease));
        ask(cmd("SET").arg(&claim).arg(ENTRY).arg("NX").arg("PX").arg(60_000));
        ask(cmd("SET").arg(&lease).arg(ENTRY).arg("NX").arg("PX").arg(60_000));
        ask(cmd("DEL").arg(&lease));
    }
}

/// Where each hundred begins.
fn hundreds() -> impl Iterator<Item = std::ops::Range<u64>> {
    (0..IN_BACKGROUND).step_by(usize::try_from(PIPELINE).expect("it is a hundred")).map(|first| first..first + PIPELINE)
}

fn pipelined(raw: &mut Connection, minute: DateTime<Utc>) {
    let minute = text(minute);
    for numbers in hundreds() {
        let (mut gate, mut release) = (redis::pipe(), redis::pipe());
        for number in numbers {
            let (lease, claim) = (lease(number), claim(number, &minute));
            set(&mut gate, &claim);
            set(&mut gate, &lease);
            release.cmd("DEL").arg(&lease);
        }
        for pipeline in [gate, release] {
            pipeline.query::<Value>(raw).expect("the server answers");
        }
    }
}

fn in_batches(socket: &mut Socket, [admit, release]: [&str; 2], minute: DateTime<Utc>) {
    let (minute, mut key) = (text(minute), String::new());
    let word = |request: &mut Vec<u8>, word: &str| {
        write!(request, "${}\r\n{word}\r\n", word.len()).expect("there is memory");
    };
    for numbers in hundreds() {
        let request = &mut socket.request;
        request.clear();
        let keys = 2 * PIPELINE + 1;
        write!(request, "*{}\r\n", 4 + keys + PIPELINE).expect("there is memory");
        for text in ["EVALSHA", admit, &keys.to_string(), "raw:token"] {
            word(request, text);
        }
        for number in numbers.clone() {
            key.clear();
            write!(key, "raw:claim:{{event:{number}}}:{minute}").expect("there is memory");
            word(request, &key);
            key.clear();
            write!(key, "raw:lease:{{event:{number}}}").expect("there is memory");
            word(request, &key);
        }
        word(request, HOLDER);
        (0..PIPELINE).for_each(|_| word(request, OWNER));
        assert!(matches!(socket.send(), Value::Array(answer) if answer[1] == Value::Array(Vec::new())));
        let request = &mut socket.request;
        request.clear();
        write!(request, "*{}\r\n", 3 + 2 * PIPELINE).expect("there is memory");
        for text in ["EVALSHA", release, &PIPELINE.to_string()] {
            word(request, text);
        }
        for number in numbers {
            key.clear();
            write!(key, "raw:lease:{{event:{number}}}").expect("there is memory");
            word(request, &key);
        }
        (0..PIPELINE).for_each(|_| word(request, OWNER));
        assert_eq!(socket.send(), Value::Int(100));
    }
}

/// The processor time of this process so far, all its threads together, in clock ticks of ten milliseconds.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux says how long a process has run");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("there is a name in it").split(' ').collect();
    let ticks: u64 = [11, 12].map(|at: usize| fields[at].parse::<u64>().expect("it is a count")).iter().sum();
    Duration::from_millis(ticks * 10)
}

/// The processor time of the server so far, for what it was asked, and for reading and answering it.
fn processor_time_of(server: &servers::redis::Redis) -> f64 {
    let info = server.ask(&["INFO", "cpu"]);
    let seconds = |name: &str| -> f64 {
        let line = info.text().lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|seconds| seconds.parse().ok()).expect("it says how long it has run")
    };
    seconds("used_cpu_sys_main_thread:") + seconds("used_cpu_user_main_thread:")
}

type Tick<'a> = (&'a str, &'a mut dyn FnMut(DateTime<Utc>));

/// The first, and its floors, in turns, tick by tick: the machine changes its speed between two measurements, so that only
/// what was measured at nearly the same time is compared. What both ends work for it is measured one by one.
fn print_beside_floors(server: &servers::redis::Redis, events: u64, ticks: &mut [Tick<'_>]) {
    let mut took: Vec<Vec<f64>> = vec![Vec::new(); ticks.len()];
    let mut now = Utc::now() + TimeDelta::days(30);
    #[expect(clippy::cast_precision_loss, reason = "it is a small number")]
    let each = events as f64;
    let mut measured = |tick: &mut dyn FnMut(DateTime<Utc>)| {
        now += TimeDelta::minutes(1);
        let began = Instant::now();
        tick(now);
        began.elapsed().as_secs_f64() * 1e6 / each
    };
    for round in 0..ROUNDS {
        for ((_, tick), took) in ticks.iter_mut().zip(&mut took) {
            let micros = measured(tick);
            if round > 0 {
                took.push(micros);
            }
        }
    }
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        [all[all.len() / 4], all[all.len() / 2], all[3 * all.len() / 4]]
    };
    let ours = took[0].clone();
    for ((name, tick), took) in ticks.iter_mut().zip(took) {
        let [low, ratio, high] = median(ours.iter().zip(&took).map(|(ours, took)| ours / took).collect());
        let (began, began_there) = (processor_time(), processor_time_of(server));
        let rounds = 20_000 / events;
        (0..rounds).for_each(|_| _ = measured(tick));
        let (here, there) = (processor_time().saturating_sub(began), processor_time_of(server) - began_there);
        let all = 1e6 / 20_000.0;
        println!(
            "redis/{name}: {:.1} µs each; ours {ratio:.2} times that ({low:.2} to {high:.2}); of processor time, {:.1} µs \
             here and {:.1} µs at the server",
            median(took)[1],
            here.as_secs_f64() * all,
            there * all,
        );
    }
}

/// Both are done in each iteration, so that the server has the same to do; one of them is timed.
fn beside(
    criterion: &mut Criterion,
    name: &str,
    events: u64,
    mut ours: impl FnMut(DateTime<Utc>),
    mut raws: impl FnMut(DateTime<Utc>),
) {
    let mut group = criterion.benchmark_group("redis");
    group.throughput(Throughput::Elements(events)).sample_size(30);
    let mut minute = DateTime::UNIX_EPOCH;
    let mut both = |timed_is_ours: bool, iterations: u64| {
        let mut took = Duration::ZERO;
        for _ in 0..iterations {
            minute += TimeDelta::minutes(1);
            let began = Instant::now();
            ours(minute);
            let between = Instant::now();
            raws(minute);
            took += if timed_is_ours { between - began } else { between.elapsed() };
        }
        took
    };
    group.bench_function(name, |bencher| bencher.iter_custom(|iterations| both(true, iterations)));
    group.bench_function(format!("raw client beside {name}"), |bencher| {
        bencher.iter_custom(|iterations| both(false, iterations));
    });
}

fn redis(criterion: &mut Criterion) {
    let server = servers::redis::Redis::start();
    let mut raw = redis::Client::open(server.url()).and_then(|client| client.get_connection()).expect("it answers");
    let mut socket = Socket::to(server.port());
    let [next_in_order, admit, release] = [NEXT_IN_ORDER, ADMIT_MANY, RELEASE_MANY].map(|text| load(&mut raw, text));

    let in_order = schedule(&server.url(), "floors:", IN_ORDER_BESIDE_FLOORS, |event| event);
    let in_background = schedule(&server.url(), "background:", IN_BACKGROUND, Event::in_background);
    print_beside_floors(
        &server,
        IN_ORDER_BESIDE_FLOORS,
        &mut [
            ("in order", &mut |now| assert!(!in_order.run_due(now).is_failure())),
            ("in order, floor: a socket", &mut |now| in_order_by_socket(&mut socket, &next_in_order, now)),
            ("in order, floor: the blocking client", &mut |now| in_order_by_client(&mut raw, &next_in_order, now)),
        ],
    );
    print_beside_floors(
        &server,
        IN_BACKGROUND,
        &mut [
            ("in background", &mut |now| assert!(!in_background.run_due(now).is_failure())),
            ("in background, floor: pipelined commands", &mut |now| pipelined(&mut raw, now)),
            ("in background, floor: a script", &mut |now| in_batches(&mut socket, [&admit, &release], now)),
        ],
    );

    let in_order = schedule(&server.url(), "order:", IN_ORDER, |event| event);
    let ours = |now| assert!(!in_order.run_due(now).is_failure());
    beside(criterion, "in order", IN_ORDER, ours, |minute| four_round_trips(&mut raw, minute));

    let ours = |now| assert!(!in_background.run_due(now).is_failure());
    beside(criterion, "in background", IN_BACKGROUND, ours, |minute| pipelined(&mut raw, minute));

    let alone = schedule(&server.url(), "alone:", 1, |event| event);
    let ours = |now| assert!(!alone.run_due(now).is_failure());
    beside(criterion, "alone", 1, ours, |minute| {
        let _: Value =
            cmd("SET").arg(format!("raw:{minute}")).arg(1).arg("PX").arg(1).query(&mut raw).expect("it answers");
    });
}

criterion_group!(benches, redis);
criterion_main!(benches);
