//! Opening a store by its URL.

use std::error::Error;

use soloist::store::{LeaseRequest, Scope};
use soloist::time::Clock;
use soloist::{MutexName, Term, connect};

#[track_caller]
fn refused(url: &str) -> String {
    let error = connect(url).expect_err("the url was accepted");
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    error.to_string()
}

#[test]
fn a_store_in_memory_is_a_new_one_each_time() {
    let name = MutexName::lease("reports").unwrap();
    let first = connect("memory:").unwrap();
    first.create(&LeaseRequest::new(name.clone(), Term::MAX, &Clock::system())).unwrap().unwrap();
    assert!(first.exists(&name).unwrap());
    assert!(!connect("MEMORY:").unwrap().exists(&name).unwrap());
    assert_eq!(first.describe().scope(), Scope::Process);
}

#[test]
fn all_ways_to_write_a_path_mean_the_same_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = format!("{}/b 1%é", dir.path().to_str().unwrap());
    let written = path.replace('%', "%25").replace(' ', "%20");
    let name = MutexName::lease("reports").unwrap();
    let first = connect(&format!("file:{written}")).unwrap();
    first.create(&LeaseRequest::new(name.clone(), Term::MAX, &Clock::system())).unwrap().unwrap();
    for url in [format!("file://{written}"), format!("file://localhost{written}"), format!("FILE:{written}")] {
        assert!(connect(&url).unwrap().exists(&name).unwrap(), "{url}");
    }
    assert!(std::path::Path::new(&path).is_dir());
    assert_eq!(first.describe().scope(), Scope::Host);
}

#[test]
fn a_url_that_opens_no_store_is_told_why() {
    let known = "memory, file, redis, redis+unix, redis+sentinel, redis+cluster, rediss, rediss+sentinel, rediss+cluster, mysql, mariadb, postgres, postgresql";
    assert_eq!(refused("zookeeper://a"), format!("no store has the scheme zookeeper; the schemes are {known}"));
    if cfg!(not(feature = "redis")) {
        let needs = "needs the feature `redis`, and this build of soloist does not have it";
        assert_eq!(refused("redis://user:secret@h/0"), format!("a store with the scheme redis {needs}"));
        assert_eq!(refused("redis+unix:///run/r"), format!("a store with the scheme redis+unix {needs}"));
    }
    if cfg!(not(feature = "redis-tls")) {
        assert_eq!(
            refused("rediss://secret@h"),
            "a store with the scheme rediss needs the feature `redis-tls`, and this build of soloist does not have it"
        );
    }
    for (scheme, feature) in
        [("mysql", "mysql"), ("mariadb", "mysql"), ("postgres", "postgres"), ("postgresql", "postgres")]
    {
        let said = refused(&format!("{scheme}://h/b?password=secret"));
        if cfg!(all(feature = "mysql", feature = "postgres")) {
            assert!(said.starts_with(&format!("the url of a {feature} server has ")) && !said.contains("secret"));
        } else {
            assert_eq!(
                said,
                format!(
                    "a store with the scheme {scheme} needs the feature `{feature}`, and this build of soloist does not have it"
                )
            );
        }
    }
    let empty = "the url of a store is empty: write one such as file:/var/lib/myapp/locks";
    assert_eq!([refused(""), refused(" ")], [empty; 2]);
    let space = "the url of a store begins or ends with a space or a line end: leave it out; in a path or a password, write %20 for a space";
    let quote = "the url of a store begins with a quote: leave the quotes out";
    for url in [" redis://:secret@h", "redis://:secret@h ", "file:/var/locks\n", "\tmemory:"] {
        assert_eq!(refused(url), space, "{url}");
    }
    for url in ["\"file:/secret\"", "'memory:'"] {
        assert_eq!(refused(url), quote, "{url}");
    }
    let placeholder = "the url of a store begins as a placeholder does, and nothing replaces it: write the url itself, or pass the value of the variable";
    for url in ["${REDIS_URL}", "$REDIS_URL", "%REDIS_URL%", "{{ url }}", "<redis://:secret@h>"] {
        assert_eq!(refused(url), placeholder, "{url}");
    }
    let in_front = "the url of a store has something in front of its scheme, as in `NAME=redis://host`: leave it out";
    for url in [
        "DATABASE_URL=postgres://u:secret@h/app",
        "export STORE=\"file:/secret\"",
        "STORE=file:/secret",
        "url: redis://:secret@h",
        "redis-cli -u redis://:secret@h",
        "jdbc:postgresql://u:secret@h/app",
    ] {
        assert_eq!(refused(url), in_front, "{url}");
    }
    let no_scheme = format!(
        "the url of a store has no scheme; write one such as file:/var/lib/myapp/locks; the schemes are {known}"
    );
    for url in [
        "locks",
        "host=db password=secret",
        "//user:secret@host/a",
        "/a?password=secret",
        ":memory",
        "1:a",
        "u:secret@h/app",
    ] {
        assert_eq!(refused(url), no_scheme, "{url}");
    }
    for (url, meant) in [
        ("/var/locks", "file:/var/locks"),
        ("/var/a:/b", "file:/var/a:/b"),
        ("memory", "memory:"),
        ("redis", "redis://host:6379/0"),
        ("postgres", "postgres://user:password@host:5432/database"),
        ("localhost:6379", "redis://localhost:6379/0"),
        ("localhost:6379/1", "redis://localhost:6379/0"),
        ("localhost:6379,password=secret,ssl=False", "redis://localhost:6379/0"),
        ("db.example:3306", "mysql://user:password@db.example:3306/database"),
        ("db.example:5432/app", "postgres://user:password@db.example:5432/database"),
    ] {
        assert_eq!(refused(url), format!("the url of a store has no scheme; did you mean {meant}"), "{url}");
    }
    for (scheme, instead) in [
        ("redis-sentinel", "did you mean `redis+sentinel` or `rediss+sentinel`?"),
        ("unix", "did you mean `redis+unix`?"),
        ("mysql2", "did you mean `mysql`?"),
        ("redis+tls", "a Redis server with TLS is reached by rediss://host:6379/0"),
        ("postgresql+psycopg2", "did you mean `postgresql`?"),
        ("valkey", "a Valkey server is reached by redis://host:6379/0"),
        ("redis+socket", "a socket of Redis is reached by redis+unix:///run/redis.sock"),
        ("pgsql", "a PostgreSQL server is reached by postgres://user:password@host:5432/database"),
        ("tcp", "write the kind of the server: redis://, mysql:// or postgres://"),
    ] {
        let said = format!("no store has the scheme {scheme}; {instead}");
        assert_eq!(refused(&format!("{scheme}://user:secret@h")), said);
    }
}

#[test]
fn a_url_that_is_not_a_plain_path_is_refused() {
    assert_eq!(refused("memory:a"), "the url of a store in memory is `memory:`, with nothing after the colon");
    let relative =
        "the url of a file store needs an absolute path to a folder of its own: write file:/var/lib/myapp/locks";
    for url in ["file:", "file:locks", "file:./locks", "file://", "file://locks", "file:/", "file:///"] {
        assert_eq!(refused(url), relative, "{url}");
    }
    for url in ["file:$HOME/locks", "file:~/locks"] {
        assert_eq!(refused(url), format!("{relative}; only a shell replaces a `$` or a `~`"), "{url}");
    }
    assert_eq!(
        refused("file://server/locks"),
        "the url of a file store names a host after its //; did you mean file:/server/locks"
    );
    assert_eq!(
        refused("file://user:secret@server/locks"),
        "the url of a file store names a host after its //; did you mean file:/path"
    );
    assert_eq!(
        refused("file:/locks?mode=secret"),
        "the url of a file store has no options: give each application its own folder; in a path, write ? as %3F and # \
         as %23"
    );
    for url in ["file:/locks%", "file:/locks%2", "file:/locks%+1", "file:/locks%é"] {
        let said = "the path in the url of a store has a % that is not followed by two hexadecimal digits";
        assert_eq!(refused(url), said, "{url}");
    }
}

#[test]
fn a_store_that_cannot_be_opened_says_what_failed_and_why() {
    let error = connect("file:/dev/null/locks").unwrap_err();
    assert_eq!(error.to_string(), "could not open the directory /dev/null/locks: Not a directory (os error 20)");
    assert!(error.source().is_none(), "nothing is said twice");
    assert!(connect("file:/tmp/a%00b").is_err());
    let is_a_file = "could not open the directory /dev/null: it is a file: write the path of a directory, in which the store \
                     makes files of its own";
    assert_eq!(refused("file:/dev/null"), is_a_file);
}

#[cfg(all(feature = "redis-tls", feature = "mysql-tls", feature = "postgres-tls"))]
#[test]
fn a_store_on_a_server_is_not_asked_for_anything_when_it_is_opened() {
    // As a program does that speaks TLS to MySQL.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Port 1 is closed.
    let urls = [
        "redis://user:secret@127.0.0.1:1/3",
        "REDISS://:secret@localhost:1",
        "redis+unix:///nowhere?pass=secret",
        "mysql://user:secret@127.0.0.1:1/app",
        "MariaDB://user:secret@localhost:1/app?ssl-mode=required",
        "mysql://user:secret@localhost/app?socket=/nowhere",
        "postgres://user:secret@127.0.0.1:1/app",
        "PostgreSQL://user:secret@localhost:1/app?sslmode=require",
        "postgres://user:secret@%2Fnowhere/app",
    ];
    let opens_and_gets_no_answer = |url| {
        let mutex = connect(url).unwrap();
        assert_eq!(mutex.describe().scope(), Scope::Fleet);
        assert!(!format!("{mutex:?}").contains("secret"), "{mutex:?}");
        let error = mutex.exists(&MutexName::lease("reports").unwrap()).unwrap_err();
        assert!(error.is_unavailable() && !format!("{error:?}").contains("secret"), "{error:?}");
    };
    // All at once: each waits for its timeout.
    std::thread::scope(|scope| {
        for url in urls {
            scope.spawn(move || opens_and_gets_no_answer(url));
        }
    });
    let wrong = "the url of a redis server has a database that is not a number: write redis://host:6379/0; the name of an \
                 application is ?prefix=NAME; in a password, write %2F for a / and %40 for an @";
    assert_eq!(refused("redis://h/secret"), wrong);
}

#[cfg(all(feature = "redis-tls", feature = "mysql-tls", feature = "postgres-tls"))]
#[test]
fn certificates_that_have_no_effect_or_are_a_path_are_refused() {
    use soloist::store::InvalidOptions;
    use soloist::{MysqlMutex, PostgresMutex, RedisMutex};

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    type Build = fn(&str, &str, Option<&str>) -> Result<(), InvalidOptions>;
    macro_rules! build {
        ($store:ident) => {
            |url, pem, key| {
                let builder = $store::builder(url);
                let builder = match key {
                    None => builder.root_certificates(pem),
                    Some(key) => builder.client_certificate(pem, key),
                };
                builder.build().map(drop)
            }
        };
    }
    let stores: [(Build, &str, &str, &str); 3] = [
        (build!(RedisMutex), "redis://h", "rediss://h", "rediss://"),
        (build!(MysqlMutex), "mysql://u@h/app", "mysql://u@h/app?ssl-mode=REQUIRED", "?ssl-mode=REQUIRED"),
        (build!(PostgresMutex), "postgres://u@h/app", "postgres://u@h/app?sslmode=require", "?sslmode=require"),
    ];
    let path = "/etc/ssl/ca.pem";
    let instead = "pass the contents of a PEM file, as in `std::fs::read(\"ca.pem\")?`, and not its path";
    let no_certificate = |method: &str| format!("`{method}(..)`: there is no certificate in the PEM: {instead}");
    for (build, plain, encrypted, tls) in stores {
        let refused = |url: &str, pem: &str, key: Option<&str>| build(url, pem, key).unwrap_err().to_string();
        let no_item = |method: &str, item: &str, instead: &str| {
            format!("`{method}(..)`: there is no {item} in the PEM: {instead}")
        };
        let only_a_key = "it has only other items, such as keys: pass the certificate of the authority";
        assert_eq!(refused(encrypted, KEY, None), no_item("root_certificates", "certificate", only_a_key));
        let one_line = PEM.replace('\n', "\\n");
        let damaged = "it is damaged: pass the whole file, with its line ends";
        assert_eq!(refused(encrypted, &one_line, None), no_item("root_certificates", "certificate", damaged));
        let exchanged = "pass the chain of certificates first, and the key second";
        for (pem, key, item) in [(KEY, PEM, "private key"), (PEM, PEM, "private key"), (KEY, KEY, "certificate")] {
            assert_eq!(refused(encrypted, pem, Some(key)), no_item("client_certificate", item, exchanged));
        }
        let locked = "it has an encrypted key: decrypt it, for example with `openssl pkey`";
        for key in [KEY.replace("PRIVATE", "ENCRYPTED PRIVATE"), KEY.replace("AAAA", "Proc-Type: 4,ENCRYPTED\n\nAAAA")]
        {
            assert_eq!(refused(encrypted, PEM, Some(&key)), no_item("client_certificate", "private key", locked));
        }
        assert_eq!(refused(encrypted, path, None), no_certificate("root_certificates"));
        assert_eq!(refused(encrypted, path, Some(KEY)), no_certificate("client_certificate"));
        assert_eq!(refused(encrypted, PEM, Some(path)), no_item("client_certificate", "private key", instead));
        for (key, method) in [(None, "root_certificates"), (Some(KEY), "client_certificate")] {
            let no_effect = format!(
                "`{method}(..)` has no effect, because the connection to another host is not encrypted: use TLS, with {tls} in \
                 the url"
            );
            assert_eq!(refused(plain, PEM, key), no_effect);
            build(encrypted, PEM, key).unwrap();
            // On this host, a server for development may have no TLS.
            build(&plain.replace('h', "localhost"), PEM, key).unwrap();
        }
    }
}

#[cfg(all(feature = "redis-tls", feature = "mysql-tls", feature = "postgres-tls"))]
#[test]
fn the_urls_of_all_servers_are_refused_for_the_same_reasons() {
    let checked = "the url asks for TLS already, and the certificate of a server is always checked: pass the certificate of its \
                   authority to `root_certificates(..)` of the builder, or install it on this machine. It takes `";
    for (kind, place, tls) in [
        ("redis", "redis://h", "rediss://:secret@h?"),
        ("mysql", "mysql://u:secret@h/app", "mysql://u:secret@h/app?ssl-mode=REQUIRED&"),
        ("postgres", "postgres://u:secret@h/app", "postgres://u:secret@h/app?sslmode=require&"),
    ] {
        let says = |url: String, why: &str| {
            assert_eq!(refused(&url), format!("the url of a {kind} server {why}"), "{url}");
        };
        let second = "has a second ?: & separates options; in a password or a value, write %3F for a ?";
        for options in ["timeout=2s?secret=1", "timeout=2s&table=a?secret"] {
            says(format!("{place}?{options}"), second);
        }
        let no_brackets = "has an IPv6 address without brackets: write it as [::1], and the port behind the brackets";
        for host in ["::1", "::1:6379", "u:secret@fe80::1:65000", "2001:db8:0:0:0:0:0:1:6379", "[::1],::1"] {
            says(format!("{kind}://{host}/0"), no_brackets);
        }
        for host in ["[::1]", "[::1]:7000", "127.0.0.1:7000"] {
            connect(&format!("{kind}://u:secret@{host}/0")).unwrap();
        }
        let two = "has a second url in it: a store has one url, in which a comma separates the hosts; in a password, write %2F for a /";
        for other in ["redis://:secret@h", "postgres://u:secret@h/app"] {
            says(format!("{place},{other}"), two);
            says(format!("{place};{other}"), two);
        }
        let form = "with the host itself in the place of a variable; in a password, write %2F for a /";
        for host in ["$(DB_HOST)", "${DB_HOST}:7000", "tcp(127.0.0.1:3306)", "<host>", "h:7000,ssl=secret"] {
            let said = refused(&format!("{kind}://u:secret@{host}/0"));
            let start = format!(
                "the url of a {kind} server has a host with $, =, a bracket and the like: write {kind}://user:"
            );
            assert!(said.starts_with(&start) && said.ends_with(form), "{said}");
        }
        let no_question_mark = "has a & in front of its first option: write ? there, and & between two options; in a path, write \
                                %26 for a &";
        says(format!("{kind}://u:secret@h/0&table=secret"), no_question_mark);
        says(format!("{kind}://u:secret@h&timeout=2s&table=secret"), no_question_mark);
        let said = refused(&format!("{kind}:host=127.0.0.1;user=secret"));
        assert!(
            said.starts_with(&format!("the url of a {kind} server is not well-formed: write {kind}://user:")),
            "{said}"
        );
        // A password may have any of these characters.
        connect(&format!("{kind}://u:s$ec(r)e{{t}}<=>&a=b@h/0")).unwrap();
        for option in ["ssl_cert_reqs=secret", "ssl=true", "tlsInsecure=secret"] {
            let said = refused(&format!("{tls}{option}"));
            let name = option.split('=').next().unwrap();
            let start = format!("the url of a {kind} server has the unknown option `{name}`: {checked}");
            assert!(said.starts_with(&start), "{said}");
        }
    }
}

#[cfg(all(feature = "redis", feature = "mysql", feature = "postgres"))]
#[test]
fn a_url_has_the_options_of_the_builder_and_a_setter_wins() {
    use std::time::Duration;

    use soloist::{MysqlMutex, PostgresMutex, RedisMutex};

    let redis = "redis://h/1?prefix=bill%69ng&timeout=500ms";
    let [mysql, postgres] =
        ["mysql", "postgres"].map(|kind| format!("{kind}://u:secret@h/app?timeout=3s&table=app.mutexes"));
    for (url, namespace) in
        [(redis, r#"prefix: "billing""#), (&*mysql, r#"table: "app.mutexes""#), (&*postgres, r#"table: "app.mutexes""#)]
    {
        let shown = format!("{:?}", connect(url).unwrap());
        assert!(shown.contains(namespace), "{shown}");
    }
    let shown = format!("{:?}", RedisMutex::builder(redis));
    assert!(shown.contains("timeout: 500ms"), "{shown}");
    let shown = format!("{:?}", RedisMutex::builder(redis).prefix("shop").timeout(Duration::from_secs(7)));
    assert!(shown.contains(r#"namespace: "shop", timeout: 7s"#), "{shown}");
    let shown = format!("{:?}", MysqlMutex::builder(&mysql).table("shop"));
    assert!(shown.contains(r#"namespace: "shop", timeout: 3s"#), "{shown}");
    let shown = format!("{:?}", PostgresMutex::builder(&postgres).timeout(Duration::from_secs(7)));
    assert!(shown.contains(r#"namespace: "app.mutexes", timeout: 7s"#), "{shown}");

    let of_redis = "the url of a redis server ";
    let of_mysql = "the url of a mysql server ";
    for (url, why) in [
        ("redis://h?prefix=a&prefix=b", format!("{of_redis}has the option prefix twice")),
        (
            "mysql://u@h/app?table=%zz",
            format!("{of_mysql}has a table that is not well-formed: write %25 for a %"),
        ),
        (
            "mysql://u@h/app?prefix=a",
            format!(
                "{of_mysql}has the unknown option `prefix`: did you mean `table`? It takes `table`, `timeout`, `ssl-mode`, `socket` \
                 and `client_found_rows`"
            ),
        ),
        ("redis://h?timeout=1m&timeout=1m", format!("{of_redis}has the option timeout twice")),
        ("redis://h?timeout=11m", "a timeout of 11m for a call of the store: use 1ms to 10m".to_owned()),
        ("postgres://u@h/app?timeout=99ms", "a timeout of 99ms for a call of the store: use 100ms to 1m".to_owned()),
        (
            "redis://h?prefix={a}",
            "the prefix of keys in redis has to be 1 to 100 visible ASCII characters without braces, as in `prefix(\"shop\")` or ?prefix=shop".to_owned(),
        ),
    ] {
        assert_eq!(refused(url), why, "{url}");
    }
}
