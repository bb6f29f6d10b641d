//! Gate and release of events with lease and claim, on servers of the bench's own over loopback: beside a raw client that
//! says the same statements; a gate that is lost beside one prepared look at its two rows; a hundred at once beside one by one; and among a million claims that have ended. What is
//! committed lies on the disk, as servers have it by default, but where it is said otherwise.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mysql::prelude::Queryable as _;
use mysql_async::prelude::Queryable as _;
use soloist::{
    Admission, Admitted, Batch, Clock, EventMutex, LeaseRequest, MutexName, MysqlMutex, PostgresMutex, Term,
};

/// The servers of the tests.
#[allow(dead_code)]
#[path = "../tests/it/servers"]
mod servers {
    mod account;
    pub(crate) mod clock;
    pub(crate) mod mariadb;
    pub(crate) mod postgres;
    mod process;
    mod template;
    mod tls;
}

use servers::mariadb::Mariadb;
use servers::postgres::Postgres;

const BATCH: usize = 100;
const MANY: usize = 1_000_000;

/// A server, a store on it, and a raw client that says what the store says.
trait Sql {
    type Mutex: EventMutex;
    /// What is said for a look, for the rows of an admission and for its end; one row; and a release.
    const TEXTS: [&str; 4];

    /// It hands what is committed to the disk, or to the system alone.
    fn start(durable: bool) -> Self;
    fn mutex(&self, table: &str) -> Self::Mutex;
    /// Adds as many claims that have just ended.
    fn fill(&self, table: &str);
    /// A connection that has the statements carried out and returns the first value of the first row.
    fn raw(&self) -> impl FnMut(&str) -> Option<String>;
    /// A connection of the store's own driver that has prepared a look at two rows, and returns how many there are.
    fn prepared(&self) -> impl FnMut([&str; 2]) -> usize;
}

/// What a look at two rows tells.
const COLUMNS: &str = "name, owner, token, host, acquired_at, expires_at, released_token, term_token, term_us";

impl Sql for Mariadb {
    type Mutex = MysqlMutex;
    const TEXTS: [&str; 4] = [
        include_str!("../src/store/mysql/statements/look.sql"),
        include_str!("../src/store/mysql/statements/admit.sql"),
        include_str!("../src/store/mysql/statements/row.sql"),
        include_str!("../src/store/mysql/statements/end.sql"),
    ];

    fn start(durable: bool) -> Self {
        let flush = format!("--innodb-flush-log-at-trx-commit={}", if durable { 1 } else { 2 });
        Self::with(&[&flush, "--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M"])
    }

    fn mutex(&self, table: &str) -> MysqlMutex {
        let mutex = MysqlMutex::builder(&self.url()).table(table).build().expect("it is in order");
        mutex.create_table().expect("the server answers");
        mutex
    }

    fn fill(&self, table: &str) {
        self.ask(&format!(
            "INSERT INTO {table} (name, owner, token, host, pid, acquired_at, expires_at) \
             SELECT CONCAT('claim/old/', LPAD(seq, 7, '0')), 'x', seq, 'h', 1, UTC_TIMESTAMP(6), \
             UTC_TIMESTAMP(6) FROM seq_1_to_{MANY}"
        ));
    }

    fn raw(&self) -> impl FnMut(&str) -> Option<String> {
        let mut connection = mysql::Conn::new(mysql::Opts::from_url(&self.url()).expect("a url")).expect("it answers");
        move |statements| {
            let mut results = connection.query_iter(statements).expect("the server answers");
            let mut first = None;
            while let Some(result) = results.iter() {
                let values = result.map(|row| row.expect("the server answers").get::<String, _>(0)).collect::<Vec<_>>();
                first = first.or(values.into_iter().next().flatten());
            }
            first
        }
    }

    fn prepared(&self) -> impl FnMut([&str; 2]) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (url, sql) = (self.url(), format!("SELECT {COLUMNS} FROM soloist_mutexes WHERE name IN (?, ?)"));
        let connect = async {
            let mut connection = mysql_async::Conn::from_url(&url).await?;
            let statement = connection.prep(sql).await?;
            Ok::<_, mysql_async::Error>((connection, statement))
        };
        let (mut connection, statement) = runtime.block_on(connect).expect("it answers");
        move |[one, other]| {
            let look = connection.exec::<mysql_async::Row, _, _>(&statement, (one, other));
            runtime.block_on(look).expect("the server answers").len()
        }
    }
}

impl Sql for Postgres {
    type Mutex = PostgresMutex;
    const TEXTS: [&str; 4] = [
        include_str!("../src/store/postgres/statements/look.sql"),
        include_str!("../src/store/postgres/statements/admit.sql"),
        include_str!("../src/store/postgres/statements/row.sql"),
        include_str!("../src/store/postgres/statements/end.sql"),
    ];

    fn start(durable: bool) -> Self {
        let flush = if durable { "--fsync=on" } else { "--fsync=off" };
        Self::with(&[flush, "--full-page-writes=on", "--shared-buffers=256MB", "--max-wal-size=4GB"])
    }

    fn mutex(&self, table: &str) -> PostgresMutex {
        let mutex = PostgresMutex::builder(&self.url()).table(table).build().expect("it is in order");
        mutex.create_table().expect("the server answers");
        mutex
    }

    fn fill(&self, table: &str) {
        self.ask(&format!(
            "INSERT INTO {table} (name, owner, token, host, pid, acquired_at, expires_at) \
             SELECT 'claim/old/' || lpad(seq::text, 7, '0'), 'x', seq, 'h', 1, now(), now() \
             FROM generate_series(1, {MANY}) AS seq"
        ));
    }

    fn raw(&self) -> impl FnMut(&str) -> Option<String> {
        let mut connection = postgres::Client::connect(&self.url(), postgres::NoTls).expect("it answers");
        move |statements| {
            let answer = connection.simple_query(statements).expect("the server answers");
            answer.iter().find_map(|message| match message {
                postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            })
        }
    }

    /// The client is the store's driver, on a runtime of one thread.
    fn prepared(&self) -> impl FnMut([&str; 2]) -> usize {
        let mut connection = postgres::Client::connect(&self.url(), postgres::NoTls).expect("it answers");
        let sql = format!("SELECT {} FROM soloist_mutexes WHERE name IN ($1, $2)", COLUMNS.replace("_at", "_at::text"));
        let statement = connection.prepare(&sql).expect("the server answers");
        move |names| connection.query(&statement, &[&names[0], &names[1]]).expect("the server answers").len()
    }
}

fn with(text: &str, places: &[(&str, &str)]) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("--"));
    let text = lines.collect::<Vec<_>>().join(" ");
    places.iter().fold(text, |text, (place, value)| text.replace(&format!("{{{place}}}"), value))
}

/// The same for an event as the store does: a look, an admission with its claim, a release.
fn raw_run<S: Sql>(raw: &mut impl FnMut(&str) -> Option<String>, minute: i64) {
    let [look, admit, row, end] = S::TEXTS;
    let owner = format!("2f4a9f0e8f0b4b0c9a570e7a6f3d51c8-4711-{minute}");
    let names = [format!("claim/raw/raw/{minute}"), "lease/raw".to_owned()];
    let list = format!("'{}', '{}'", names[0], names[1]);
    raw(&with(look, &[("which", &format!("name IN ({list})"))])).expect("it tells the time");
    let owners = format!("'{owner}'");
    let rows = names.each_ref().map(|name| {
        let name = format!("'{name}'");
        let places = [("name", &*name), ("owner", &*owners), ("host", "'web-1'"), ("pid", "1"), ("micros", "60000000")];
        with(row, &places)
    });
    let rows = rows.join(", ");
    let far = i64::MAX.to_string();
    raw(&with(
        admit,
        &[
            ("rows", &rows),
            ("names", &list),
            ("excluding", "NULL"),
            ("owners", &owners),
            ("looked", "0"),
            ("until", &far),
        ],
    ));
    let ours = format!("(name = 'lease/raw' AND owner = '{owner}')");
    assert_eq!(raw(&with(end, &[("ours", &ours), ("micros", "0")])).as_deref(), Some("lease/raw"));
}

fn admission(number: usize, minute: i64) -> Admission {
    let term = Term::new(Duration::from_secs(3600)).expect("it is a term");
    let name = MutexName::lease(format!("event:{number}")).expect("it is a name");
    let claim = name.claim("event", DateTime::UNIX_EPOCH + TimeDelta::minutes(minute));
    let lease = LeaseRequest::new(name, term, &Clock::system());
    let claim = lease.with(claim, term);
    Admission::both(lease, claim)
}

/// Gates and releases of so many events at once.
fn run(mutex: &impl EventMutex, events: std::ops::Range<usize>, minute: i64) {
    let mut gate = Batch::new();
    events.for_each(|number| gate.admit(admission(number, minute)));
    mutex.carry_out(&mut gate);
    let mut end = Batch::new();
    for slot in gate.admissions() {
        let Some(Ok(Admitted::Granted(grant))) = slot.answer() else { panic!("{slot:?}") };
        end.release(grant.lease().expect("a lease was asked for").clone());
    }
    mutex.carry_out(&mut end);
    assert!(end.releases().iter().all(|slot| matches!(slot.answer(), Some(Ok(true)))));
}

/// One of the two is timed, and both are done in each iteration, so that the server has the same to do. The ratio is that
/// of all iterations.
fn beside(
    criterion: &mut Criterion,
    group: &str,
    names: [&str; 2],
    events: usize,
    mut ours: impl FnMut(i64),
    mut theirs: impl FnMut(i64),
) {
    let mut group_of_both = criterion.benchmark_group(group);
    group_of_both.throughput(Throughput::Elements(events as u64)).sample_size(20);
    let mut minute = 0;
    let mut in_all = [Duration::ZERO; 2];
    for at in 0..2 {
        group_of_both.bench_function(names[at], |bencher| {
            bencher.iter_custom(|iterations| {
                let mut took = [Duration::ZERO; 2];
                for _ in 0..iterations {
                    minute += 1;
                    let began = Instant::now();
                    ours(minute);
                    let between = Instant::now();
                    theirs(minute);
                    took[0] += between - began;
                    took[1] += between.elapsed();
                }
                in_all = [in_all[0] + took[0], in_all[1] + took[1]];
                took[at]
            });
        });
    }
    let ratio = in_all[0].as_secs_f64() / in_all[1].as_secs_f64();
    println!("{group}/{}: {ratio:.3} of the time of {}", names[0], names[1]);
}

fn on<S: Sql>(criterion: &mut Criterion, kind: &str) {
    for (durable, names) in [
        (true, ["alone", "raw client beside alone"]),
        (false, ["alone, not on the disk", "raw client beside alone, not on the disk"]),
    ] {
        let server = S::start(durable);
        let (mutex, mut raw) = (server.mutex("soloist_mutexes"), server.raw());
        beside(criterion, kind, names, 1, |minute| run(&mutex, 0..1, minute), |minute| raw_run::<S>(&mut raw, minute));
    }

    let server = S::start(true);
    let (mutex, mut prepared) = (server.mutex("soloist_mutexes"), server.prepared());
    let (held, minute) = (MANY, 0);
    assert!(matches!(admission(held, minute).ask(&mutex), Ok(Admitted::Granted(_))));
    let lost = |_| assert!(matches!(admission(held, minute).ask(&mutex), Ok(Admitted::ClaimTaken(_))));
    let names = [format!("claim/event:{held}/event/1970-01-01T00:00:00Z"), format!("lease/event:{held}")];
    let look = |_| assert_eq!(prepared(names.each_ref().map(|name| &**name)), 2);
    beside(criterion, kind, ["a lost gate", "one prepared look"], 1, lost, look);

    let (few, many) = (server.mutex("few"), server.mutex("many"));
    let one_by_one = |minute| (0..BATCH).for_each(|number| run(&many, number..number + 1, minute));
    let names = ["a hundred at once", "a hundred one by one"];
    beside(criterion, kind, names, BATCH, |minute| run(&few, 0..BATCH, minute), one_by_one);

    // While this lasts, they stay: it is less than two minutes since they ended.
    server.fill("many");
    let names = ["among a million", "in a small table"];
    beside(criterion, kind, names, 1, |minute| run(&many, 200..201, minute), |minute| run(&few, 200..201, minute));
}

fn sql(criterion: &mut Criterion) {
    on::<Mariadb>(criterion, "mariadb");
    on::<Postgres>(criterion, "postgres");
}

criterion_group!(benches, sql);
criterion_main!(benches);
