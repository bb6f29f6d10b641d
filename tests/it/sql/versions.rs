//! Workers of the last version beside those of this one, on one table. `last_version/` keeps what those say to a server.

use std::thread;
use std::time::Duration;

use soloist::{Clock, EventMutex, Lease, LeaseRequest, MutexName, Owner, Term};

use super::batches::extend;
use super::clean_up::BesideTheStore;
use super::trouble::Trouble;
use super::{SqlServer, on_both};
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::support::holder;

on_both!(
    a_table_of_the_last_version_is_upgraded,
    a_table_that_needs_no_upgrade_is_left_to_those_who_use_it,
    what_the_last_version_takes_over_is_its_own,
    what_the_last_version_gave_back_is_free,
    the_last_version_sees_what_this_one_holds,
    the_last_version_cleans_up_and_keeps_the_highest_token,
);

/// What the last version says to a server of this kind.
trait LastVersion: Trouble + BesideTheStore {
    const SCHEMA: &'static str;
    const LOOK: &'static str;
    const ADMIT: &'static str;
    const ROW: &'static str;
    const END: &'static str;
    const CLEAN_UP: &'static str;

    /// Asks, where an error is an answer too: the whole of it is undone then.
    fn tell_all(&self, statements: &str);
}

macro_rules! last_version {
    ($server:ty, $folder:literal) => {
        impl LastVersion for $server {
            const SCHEMA: &'static str = include_str!(concat!("last_version/", $folder, "/schema.sql"));
            const LOOK: &'static str = include_str!(concat!("last_version/", $folder, "/look.sql"));
            const ADMIT: &'static str = include_str!(concat!("last_version/", $folder, "/admit.sql"));
            const ROW: &'static str = include_str!(concat!("last_version/", $folder, "/row.sql"));
            const END: &'static str = include_str!(concat!("last_version/", $folder, "/end.sql"));
            const CLEAN_UP: &'static str = include_str!(concat!("last_version/", $folder, "/clean_up.sql"));

            fn tell_all(&self, statements: &str) {
                let _ = self.try_ask(statements); // What came of it is looked for in the table.
            }
        }
    };
}

last_version!(Mariadb, "mysql");
last_version!(Postgres, "postgres");

/// A worker of the last version, as far as its statements go.
struct LastWorker<'a, S>(&'a S);

impl<S: LastVersion> LastWorker<'_, S> {
    fn filled(text: &str, places: &[(&str, String)]) -> String {
        let lines = text.lines().filter(|line| !line.starts_with("--"));
        let text = lines.collect::<Vec<_>>().join("\n");
        places.iter().fold(text, |text, (place, value)| text.replace(&format!("{{{place}}}"), value))
    }

    /// Who has this name for longer than now, if somebody has, by its look.
    fn holder(&self, name: &str) -> Option<String> {
        let rows = self.0.ask(&Self::filled(S::LOOK, &[("names", format!("'{name}'"))]));
        let now = number(rows[0][0].as_deref());
        rows.get(1).filter(|row| number(row[5].as_deref()) > now).and_then(|row| row[1].clone())
    }

    /// Takes a name for a term, as its gate does where its look says that it is free: who has it then.
    fn take(&self, name: &str, term: Duration) -> Owner {
        assert_eq!(self.holder(name), None, "its look says that it is free");
        let owner = Owner::unique();
        self.write(name, owner, term);
        assert_eq!(self.holder(name), Some(owner.to_string()), "it was granted");
        owner
    }

    /// Writes what it would write if its look had said that the name is free.
    fn write(&self, name: &str, owner: Owner, term: Duration) {
        let first = &self.0.ask(&Self::filled(S::LOOK, &[("names", format!("'{name}'"))]))[0];
        let (now, last) = (number(first[0].as_deref()), number(first[1].as_deref()));
        let (token, micros) = ((last + 1).max(now).to_string(), term.as_micros().to_string());
        let text = [("name", name), ("owner", &owner.to_string()), ("token", &token), ("host", "h"), ("pid", "1")];
        let mut places = text.map(|(place, text)| (place, text.to_owned())).to_vec();
        places.extend([("micros", micros), ("until", (now + 4_000_000).to_string())]);
        let row = Self::filled(S::ROW, &places);
        places.extend([("rows", row), ("names", format!("'{name}'")), ("owners", format!("'{owner}'"))]);
        self.0.tell_all(&Self::filled(S::ADMIT, &places));
    }

    /// Lets it end so long from now on: whether it was its own.
    fn end(&self, name: &str, owner: Owner, rest: Duration) -> bool {
        let ours = format!("(name = '{name}' AND owner = '{owner}')");
        let places = [("ours", ours), ("micros", rest.as_micros().to_string())];
        self.0.ask(&Self::filled(S::END, &places)).iter().any(|row| row.len() == 2)
    }
}

fn number(text: Option<&str>) -> i64 {
    text.and_then(|text| text.parse().ok()).expect("a number")
}

const NAME: &str = "lease/report";
const HOUR: Duration = Duration::from_secs(3600);

fn name() -> MutexName {
    MutexName::lease("report").expect("a name")
}

fn take<S: SqlServer>(server: &S, term: Duration) -> Option<Lease> {
    let request = LeaseRequest::new(name(), Term::new(term).expect("a term"), &Clock::system());
    server.mutex().create(&request).expect("an answer")
}

fn last_table<S: LastVersion>() -> S {
    let server = S::with(&[]);
    let as_its_user = if server.url().starts_with("postgres") { "SET ROLE owner; " } else { "" };
    server.ask(&format!("{as_its_user}{}", LastWorker::<S>::filled(S::SCHEMA, &[])));
    server
}

fn a_table_of_the_last_version_is_upgraded<S: LastVersion>() {
    let server = last_table::<S>();
    let theirs = LastWorker(&server).take(NAME, HOUR);
    let request = LeaseRequest::new(name(), Term::DEFAULT, &Clock::system());
    let error = server.mutex().create(&request).unwrap_err();
    assert!(error.is_refused());
    let said = format!("{error:?}");
    assert!(
        said.contains(
            "; create or upgrade the table soloist_mutexes: call create_table(), or run CREATE TABLE IF NOT EXISTS"
        ),
        "{said}"
    );
    assert!(format!("{:?}", server.mutex().check().unwrap_err()).contains("create or upgrade the table"));

    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| S::create_table(&server.mutex()).unwrap());
        }
    });
    assert_eq!(server.mutex().check().unwrap(), []);
    assert_eq!(holder(&server.mutex(), &name()).expect("what is held stays so").owner(), theirs);
    assert!(take(&server, HOUR).is_none());
    assert!(LastWorker(&server).end(NAME, theirs, Duration::ZERO));
    assert!(take(&server, HOUR).is_some());
    // Another name is upgraded as well.
    let (ours, other) = (S::mutex(&server), S::named(&server.url(), "other"));
    let schema = S::SCHEMA.replace("soloist_mutexes", "other");
    server.ask(&LastWorker::<S>::filled(&schema, &[]));
    if server.url().starts_with("postgres") {
        server.ask("ALTER TABLE other OWNER TO owner");
    }
    S::create_table(&other).unwrap();
    assert!(other.create(&request).unwrap().is_some());
    S::create_table(&ours).unwrap();
}

fn a_table_that_needs_no_upgrade_is_left_to_those_who_use_it<S: LastVersion>() {
    let server = S::start();
    assert!(take(&server, HOUR).is_some());
    let _held = server.hold("SELECT * FROM soloist_mutexes");
    S::create_table(&server.mutex()).unwrap();
}

fn what_the_last_version_takes_over_is_its_own<S: LastVersion>() {
    let server = S::start();
    let (last, short) = (LastWorker(&server), Duration::from_secs(60));
    for _ in 0..2 {
        // Of this grant the row says that it was released, and that its term is short.
        let lease = take(&server, short).expect("it is free");
        assert!(server.mutex().forget(&lease).unwrap());
        let theirs = last.take(NAME, HOUR);
        assert!(take(&server, short).is_none());
        let holder = holder(&server.mutex(), &name()).expect("it is held");
        assert_eq!(holder.owner(), theirs);
        assert!(holder.until() - holder.since() >= chrono::TimeDelta::minutes(59), "nobody shortens it: {holder:?}");
        assert!(!server.mutex().forget(&lease).unwrap(), "it is not this one's any more");
        assert!(last.end(NAME, theirs, 2 * HOUR), "it renews it");
        assert!(take(&server, short).is_none());
        assert!(last.end(NAME, theirs, Duration::ZERO));
    }
}

fn what_the_last_version_gave_back_is_free<S: LastVersion>() {
    let server = S::start();
    let theirs = LastWorker(&server).take(NAME, HOUR);
    assert!(take(&server, HOUR).is_none());
    assert!(LastWorker(&server).end(NAME, theirs, Duration::ZERO));
    assert!(!server.mutex().exists(&name()).unwrap());
    assert!(take(&server, HOUR).is_some());
}

fn the_last_version_sees_what_this_one_holds<S: LastVersion>() {
    let server = S::start();
    let last = LastWorker(&server);
    for _ in 0..2 {
        let lease = take(&server, HOUR).expect("it is free");
        assert_eq!(last.holder(NAME), Some(lease.owner().to_string()));
        last.write(NAME, Owner::unique(), HOUR);
        assert_eq!(last.holder(NAME), Some(lease.owner().to_string()), "its write is refused");
        assert!(extend(&server.mutex(), std::slice::from_ref(&lease), Term::DEFAULT).remove(0).unwrap());
        assert!(server.mutex().forget(&lease).unwrap());
        assert!(last.end(NAME, last.take(NAME, HOUR), Duration::ZERO));
    }
}

fn the_last_version_cleans_up_and_keeps_the_highest_token<S: LastVersion>() {
    let server = S::start();
    let lease = take(&server, HOUR).expect("it is free");
    assert!(server.mutex().forget(&lease).unwrap());
    server.add_ended(10, 300);
    let places = [("kept", "120"), ("batch", "500"), ("patience", "1")].map(|(place, text)| (place, text.to_owned()));
    server.ask(&LastWorker::<S>::filled(S::CLEAN_UP, &places));
    assert_eq!(server.count("SELECT COUNT(*) FROM soloist_mutexes WHERE token > 0"), 1);
    assert!(take(&server, HOUR).expect("it is free").token() > lease.token());
}
