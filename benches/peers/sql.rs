//! Measures due events on databases over loopback, compared with raw clients. Each commit is written to the disk.

use std::cell::RefCell;

use mysql::prelude::Queryable;
use soloist::{EventMutex, MysqlMutex, PostgresMutex};

use crate::alternate::{BOTH, NOTHING, Unit, Work};
use crate::machine::apart;
use crate::race::Race;
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::ticks::{Ticks, callback, each, lease_and_claim, timed};

const MANY: usize = 100;

/// The number of reads after which a new connection has prepared its statement, and the caches of the server are
/// filled.
const WARM_UP: usize = 20;

pub(crate) fn race(race: &mut Race) {
    on::<Mariadb>(race);
    on::<Postgres>(race);
}

/// A server, and a raw client of it.
trait Sql {
    const NAME: &'static str;
    /// The statements of the store: the read before an admission, the admission, one row of the admission, and the
    /// release.
    const TEXTS: [&'static str; 4];
    type Mutex: EventMutex + 'static;

    fn start() -> Self;
    /// Creates the table, and a store in it.
    fn mutex(&self, table: &str) -> Self::Mutex;
    /// Adds claims that have just ended to the table. `claims` is their number.
    fn fill(&self, table: &str, claims: usize);
    /// Connects a raw client, which carries out statements and returns the first value of the first row.
    fn raw(&self) -> impl FnMut(&str) -> Option<String>;
    /// Connects a raw client that prepares the statement `look` for two names. A call of the client returns the number
    /// of rows.
    fn prepared(&self, look: &str) -> impl FnMut([&str; 2]) -> usize;
}

fn on<S: Sql>(race: &mut Race) {
    let server = apart(S::start);
    let raw = RefCell::new(server.raw());
    race.version(S::NAME, &raw.borrow_mut()("SELECT version()").expect("it has one"));
    let [mut winner, mut loser] = [(); 2].map(|()| Ticks::new(server.mutex("soloist_mutexes"), 1, lease_and_claim));
    // Two names, as in the read before an admission. Both are in the table.
    let mut prepared =
        server.prepared("SELECT name, owner, token, host, expires_at FROM soloist_mutexes WHERE name IN ");
    let names = raw_run::<S>(&mut *raw.borrow_mut(), 0);
    let looks = race.size(200, 1);
    let work = Work::new(format!("on {}, an event that another server has taken", S::NAME), Unit::Seconds)
        .by("one prepared `SELECT`", NOTHING, || {
            let mut look = || assert_eq!(prepared(names.each_ref().map(String::as_str)), 2);
            each(timed(0, || (0..looks).for_each(|_| look())), looks)
        })
        .by("the `SELECT` of the store as text, by a raw client", NOTHING, || {
            let look = || raw_look::<S>(&mut *raw.borrow_mut(), &names);
            each(timed(0, || (0..looks).for_each(|_| look())), looks)
        })
        .by("soloist", BOTH, || {
            winner.run();
            // The connection of the raw client is not new, so the connection of the store is warmed up, too.
            (0..WARM_UP).for_each(|_| _ = loser.lose(&winner));
            each((0..looks).map(|_| loser.lose(&winner)).sum(), looks)
        });
    race.run(6, work);

    let mut minute = 0;
    let work = Work::new(format!("one event on {}", S::NAME), Unit::Seconds)
        .by("the same statements by a raw client", BOTH, || {
            minute += 1;
            let work = || {
                raw_run::<S>(&mut *raw.borrow_mut(), minute);
                callback();
            };
            each(timed(1, work), 1)
        })
        .by("soloist", BOTH, || each(winner.run(), 1));
    race.run(8, work);

    let mut in_order = Ticks::new(server.mutex("in_order"), MANY, lease_and_claim);
    let mut in_background =
        Ticks::new(server.mutex("in_background"), MANY, |event| lease_and_claim(event).in_background());
    let work = Work::new(format!("each of 100 events on {}", S::NAME), Unit::Seconds)
        .by("soloist, in order", BOTH, || each(in_order.run(), MANY))
        .by("soloist, in the background", BOTH, || each(in_background.run(), MANY));
    race.run(8, work);

    let [mut few, mut many] = ["few", "many"].map(|table| Ticks::new(server.mutex(table), 1, lease_and_claim));
    // The claims stay in the table during the measurement, because the store deletes claims only when they ended some
    // time ago.
    server.fill("many", race.size(1_000_000, 1_000));
    let work = Work::new(format!("one event on {}, by the size of the table", S::NAME), Unit::Seconds)
        .by("soloist, in a small table", BOTH, || each(few.run(), 1))
        .by("soloist, among a million claims that have ended", BOTH, || each(many.run(), 1));
    race.run(6, work);
}

/// Reads two names with the statement of the store.
fn raw_look<S: Sql>(raw: &mut impl FnMut(&str) -> Option<String>, names: &[String; 2]) {
    let which = format!("name IN ('{}', '{}')", names[0], names[1]);
    raw(&with(S::TEXTS[0], &[("which", &which)])).expect("the first value is the time of the server");
}

/// Runs one event with the statements of the store: a read, an admission of lease and claim, and a release. Returns the
/// two names.
fn raw_run<S: Sql>(raw: &mut impl FnMut(&str) -> Option<String>, minute: i64) -> [String; 2] {
    let [_, admit, row, end] = S::TEXTS;
    let owner = format!("2f4a9f0e8f0b4b0c9a570e7a6f3d51c8-4711-{minute}");
    let names = [format!("claim/raw/raw/{minute}"), "lease/raw".to_owned()];
    raw_look::<S>(raw, &names);
    let list = format!("'{}', '{}'", names[0], names[1]);
    let owners = format!("'{owner}'");
    let rows = names.each_ref().map(|name| {
        let (name, micros) = (format!("'{name}'"), "60000000");
        let places = [("name", &*name), ("owner", &owners), ("host", "'web-1'"), ("pid", "1"), ("micros", micros)];
        with(row, &places)
    });
    let rows = rows.join(", ");
    let far = i64::MAX.to_string();
    let places = [
        ("rows", &*rows),
        ("names", &list),
        ("excluding", "NULL"),
        ("owners", &owners),
        ("looked", "0"),
        ("until", &far),
    ];
    raw(&with(admit, &places));
    let ours = format!("(name = 'lease/raw' AND owner = '{owner}')");
    let end = with(end, &[("ours", &ours), ("micros", "0"), ("asked", "0"), ("until", &far)]);
    assert_eq!(raw(&end).as_deref(), Some("lease/raw"));
    names
}

fn with(text: &str, places: &[(&str, &str)]) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("--"));
    let text = lines.collect::<Vec<_>>().join(" ").replace("{mutexes}", "soloist_mutexes");
    places.iter().fold(text, |text, (place, value)| text.replace(&format!("{{{place}}}"), value))
}

impl Sql for Mariadb {
    const NAME: &'static str = "MariaDB";
    const TEXTS: [&'static str; 4] = [
        include_str!("../../src/store/mysql/statements/look.sql"),
        include_str!("../../src/store/mysql/statements/admit.sql"),
        "({name}, {owner}, @soloist_token, {host}, {pid}, UTC_TIMESTAMP(6), \
         UTC_TIMESTAMP(6) + INTERVAL {micros} MICROSECOND, FALSE, {micros}, NULL)",
        include_str!("../../src/store/mysql/statements/end.sql"),
    ];
    type Mutex = MysqlMutex;

    fn start() -> Self {
        let options =
            ["--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M"];
        Self::with(&options)
    }

    fn mutex(&self, table: &str) -> MysqlMutex {
        let mutex = MysqlMutex::builder(&self.url()).table(table).build().expect("it is in order");
        mutex.create_table().expect("the server answers");
        mutex
    }

    fn fill(&self, table: &str, claims: usize) {
        self.ask(&format!(
            "INSERT INTO {table} (released, term_us, name, owner, token, host, pid, acquired_at, expires_at) \
             SELECT FALSE, 0, CONCAT('claim/old/', LPAD(seq, 7, '0')), 'x', seq, 'h', 1, UTC_TIMESTAMP(6), \
             UTC_TIMESTAMP(6) FROM seq_1_to_{claims}"
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

    fn prepared(&self, look: &str) -> impl FnMut([&str; 2]) -> usize {
        let mut connection = mysql::Conn::new(mysql::Opts::from_url(&self.url()).expect("a url")).expect("it answers");
        let look = connection.prep(format!("{look}(?, ?)")).expect("it is in order");
        move |names| {
            let rows: Vec<mysql::Row> = connection.exec(&look, (names[0], names[1])).expect("the server answers");
            rows.len()
        }
    }
}

impl Sql for Postgres {
    const NAME: &'static str = "PostgreSQL";
    const TEXTS: [&'static str; 4] = [
        include_str!("../../src/store/postgres/statements/look.sql"),
        include_str!("../../src/store/postgres/statements/admit.sql"),
        "({name}, {owner}, current_setting('soloist.token')::bigint, {host}, {pid}, clock_timestamp(), \
         clock_timestamp() + {micros} * interval '1 microsecond', false, {micros}, 'epoch'::timestamptz)",
        include_str!("../../src/store/postgres/statements/end.sql"),
    ];
    type Mutex = PostgresMutex;

    fn start() -> Self {
        let options = ["--fsync=on", "--full-page-writes=on", "--shared-buffers=256MB", "--max-wal-size=4GB"];
        Self::with(&options)
    }

    fn mutex(&self, table: &str) -> PostgresMutex {
        let mutex = PostgresMutex::builder(&self.url()).table(table).build().expect("it is in order");
        mutex.create_table().expect("the server answers");
        mutex
    }

    fn fill(&self, table: &str, claims: usize) {
        self.ask(&format!(
            "INSERT INTO {table} (released, term_us, name, owner, token, host, pid, acquired_at, expires_at) \
             SELECT false, 0, 'claim/old/' || lpad(seq::text, 7, '0'), 'x', seq, 'h', 1, now(), now() \
             FROM generate_series(1, {claims}) AS seq"
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

    fn prepared(&self, look: &str) -> impl FnMut([&str; 2]) -> usize {
        let mut connection = postgres::Client::connect(&self.url(), postgres::NoTls).expect("it answers");
        let look = connection.prepare(&format!("{look}($1, $2)")).expect("it is in order");
        move |names| connection.query(&look, &[&names[0], &names[1]]).expect("the server answers").len()
    }
}
