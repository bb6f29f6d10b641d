//! The attacks of another user of a PostgreSQL database, without any right on the store's table.

use soloist::store::{Admission, Admitted, Names, StoreWarning};
use soloist::{EventMutex, PostgresMutex, Term};

use super::batches::extend;
use super::trouble::{Trouble, request, said, wait_until};
use super::{LONG, SqlServer};
use crate::servers::postgres::{self, Postgres};
use crate::support::noon;

const FOUR: &str = "SELECT, INSERT, UPDATE, DELETE";

/// Made in `public` by a stranger: operators and functions that are called as the server's own are, for the types that the store's
/// statements have or nearly have. Each writes down as whom it runs.
const TRAPS: &str = "
    CREATE TABLE public.caught (who text, by text);
    GRANT ALL ON public.caught TO PUBLIC;
    DO $$
    DECLARE
        types text[] := '{text,varchar,name,bigint,integer,numeric,double precision,timestamptz,interval,boolean,oid,regclass}';
        operators text[] := '{=,<>,<,<=,>,>=,+,-,*,||,~~}';
        functions text[] := '{date_part,extract,set_config,concat,hashtextextended,hashtext,current_setting,to_regclass,quote_ident,like_escape,md5}';
        a text; b text; operator text; function text;
        trap text := $trap$ LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.caught VALUES (current_user, ''%s''); RETURN NULL; END' $trap$;
    BEGIN
        FOREACH a IN ARRAY types LOOP
            FOREACH b IN ARRAY types LOOP
                EXECUTE format('CREATE FUNCTION public.trap(%s, %s) RETURNS boolean', a, b) || format(trap, 'operator');
                FOREACH operator IN ARRAY operators LOOP
                    EXECUTE format('CREATE OPERATOR public.%s (FUNCTION = public.trap, LEFTARG = %s, RIGHTARG = %s)', operator, a, b);
                END LOOP;
                FOREACH function IN ARRAY functions LOOP
                    EXECUTE format('CREATE FUNCTION public.%I(%s, %s) RETURNS text', function, a, b) || format(trap, function);
                END LOOP;
            END LOOP;
            FOREACH function IN ARRAY functions LOOP
                EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS text', function, a) || format(trap, function);
            END LOOP;
        END LOOP;
    END $$;
";

/// Adds a user without any right on the table. The user may create objects in its schema, as all could before
/// PostgreSQL 15.
fn add_stranger(server: &Postgres) {
    server.ask("CREATE ROLE stranger LOGIN PASSWORD 'password'; GRANT CREATE ON SCHEMA public TO stranger");
}

/// Connects as a user that may do everything.
fn administrator(server: &Postgres) -> PostgresMutex {
    server.ask("CREATE ROLE administrator SUPERUSER LOGIN PASSWORD 'password'");
    PostgresMutex::new(&server.url().replace("owner", "administrator")).expect("a url")
}

fn warnings(mutex: &PostgresMutex) -> Vec<String> {
    mutex.check().expect("an answer").iter().map(StoreWarning::to_string).collect()
}

#[test]
fn what_a_stranger_made_beside_the_table_is_never_run_as_the_user_of_the_store() {
    let server = <Postgres as SqlServer>::start();
    add_stranger(&server);
    server.ask(&format!("SET ROLE stranger; {TRAPS}"));
    for url in [server.user_with(FOUR), server.url()] {
        let mutex = Postgres::open(&url, LONG);
        // Some statements are prepared the second time.
        for _ in 0..3 {
            let (lease, other) = (request("report"), request("other"));
            let claim = lease.with(lease.name().claim("report", noon()), Term::DEFAULT);
            let admission = Admission::both(lease, claim).unless(other.name().clone());
            let Ok(Admitted::Granted(grant)) = admission.ask(&mutex) else { panic!("it is free") };
            let lease = grant.lease().expect("a lease").clone();
            assert!(mutex.exists(lease.name()).unwrap());
            assert_eq!(mutex.held(Names::LeasesWithPrefix("re")).unwrap().len(), 1);
            assert!(extend(&mutex, std::slice::from_ref(&lease), Term::DEFAULT).remove(0).unwrap());
            assert!(mutex.forget(&lease).unwrap());
            assert!(mutex.forget(grant.claim().expect("a claim")).unwrap());
            assert!(mutex.create(&other).unwrap().is_some());
            assert!(mutex.break_lease(other.name()).unwrap().is_some());
            assert_eq!((mutex.check().unwrap(), mutex.purge().unwrap()), (vec![], 0));
            assert_eq!(mutex.run_log().expect("it keeps one").runs("report").unwrap(), []);
        }
    }
    administrator(&server).create_table().unwrap();
    let caught = server.ask("SELECT DISTINCT who, by FROM public.caught");
    assert!(caught.is_empty(), "{caught:?}");
}

#[test]
fn a_table_that_a_stranger_made_is_refused_and_warned_of() {
    let server = Postgres::with(&[]);
    add_stranger(&server);
    server.ask(&format!("SET ROLE stranger; {}; GRANT ALL ON soloist_mutexes TO PUBLIC", PostgresMutex::SCHEMA));
    let stranger = "soloist_mutexes belongs to stranger, who owns neither the database nor the schema";
    let refused = said(&administrator(&server).create_table().expect_err("it is not to be trusted"));
    assert!(
        refused.contains(stranger) && refused.ends_with("; drop the table while nothing runs, and create it again")
    );
    let warned = warnings(&server.mutex());
    assert_eq!(
        warned.iter().filter(|warning| warning.contains(" belongs to stranger, ")).count(),
        2,
        "both tables: {warned:?}"
    );
}

#[test]
fn a_trigger_on_the_table_is_refused_and_warned_of() {
    let server = <Postgres as SqlServer>::start();
    assert_eq!(warnings(&server.mutex()), [""; 0]);
    server.ask(
        "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''it was run''; END'; \
         CREATE TRIGGER trap BEFORE INSERT ON soloist_mutexes FOR EACH ROW EXECUTE FUNCTION trap()",
    );
    let trigger = "soloist_mutexes has the trigger trap, which runs with the rights of all who use it";
    let refused = said(&server.mutex().create_table().expect_err("it is not to be trusted"));
    assert!(refused.contains(trigger), "{refused}");
    let warned = warnings(&server.mutex());
    assert!(warned.iter().any(|warning| warning.contains(trigger)), "{warned:?}");
    assert!(!warned.iter().any(|warning| warning.contains("it was run")), "a check runs no trigger: {warned:?}");
}

/// Takes locks as a stranger: each role that may connect may take any advisory lock whose key is known.
#[test]
fn nobody_knows_the_locks_of_a_name_who_may_not_read_the_table() {
    let server = <Postgres as SqlServer>::start();
    assert!(server.mutex().create(&request("first")).unwrap().is_some(), "the secret is there");
    add_stranger(&server);
    let mut stranger = server.connection();
    postgres::ask(&mut stranger, "SET ROLE stranger").unwrap();
    assert!(postgres::ask(&mut stranger, "SELECT owner FROM soloist_mutexes WHERE name = 'advisory-key'").is_err());
    let table = "'soloist_mutexes'::regclass::oid";
    for key in [
        &format!("hashtextextended('lease/report', {table}::bigint)"),
        &format!("hashtextextended('', {table}::bigint)"),
        &format!("{table}::integer, hashtext('lease/report')"),
        "hashtextextended('lease/report', 0)",
        "hashtextextended('lease/report', 1)",
        "hashtextextended('', 0)",
    ] {
        postgres::ask(&mut stranger, &format!("SELECT pg_advisory_lock({key})")).unwrap();
    }
    assert!(server.mutex().create(&request("report")).unwrap().is_some(), "it is free");
}

/// Makes the secret anew when the table was emptied.
#[test]
fn the_secret_of_the_locks_survives_a_clean_up_and_is_made_anew_if_it_is_missing() {
    let server = <Postgres as SqlServer>::start();
    let secret = || server.ask("SELECT owner FROM soloist_mutexes WHERE name = 'advisory-key'");
    let mut last = secret();
    assert!(last.is_empty(), "nothing was granted yet");
    for name in ["first", "second"] {
        assert!(server.mutex().create(&request(name)).unwrap().is_some());
        let found = secret();
        assert!(found.len() == 1 && found != last, "{found:?}");
        server.mutex().purge().unwrap();
        assert_eq!(secret(), found);
        last = found;
        server.ask("TRUNCATE soloist_mutexes");
    }
}

#[test]
fn a_store_that_takes_no_writes_is_warned_of() {
    let server = <Postgres as SqlServer>::start();
    server.ask(Postgres::READ_ONLY[0]);
    let text = "the store refused a trial, so that protected events may not run as they should: the server answered 25006 cannot execute \
                INSERT in a read-only transaction; it takes no writes: connect to the primary, and to a database that is not \
                read-only";
    assert_eq!(warnings(&server.mutex()), [text]);
    server.ask(Postgres::READ_ONLY[1]);
    assert_eq!(server.mutex().check().unwrap(), []);
}

#[test]
fn an_old_snapshot_that_keeps_dead_rows_is_warned_of() {
    let server = <Postgres as SqlServer>::start();
    assert!(server.mutex().create(&request("report")).unwrap().is_some());
    let snapshot = server.holding(&["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT txid_current()"]);
    server.add_ended(50_001, 300);
    server.ask("DELETE FROM soloist_mutexes WHERE name LIKE 'claim/old/%'");
    server.ask("VACUUM soloist_mutexes");
    wait_until(
        "it is counted",
        || matches!(&warnings(&server.mutex())[..], [slow] if slow.contains(" old versions of rows make each admission slow: ")),
    );
    drop(snapshot);
    wait_until("the snapshot is gone", || {
        server.ask("VACUUM soloist_mutexes");
        server.mutex().check().unwrap().is_empty()
    });
}
