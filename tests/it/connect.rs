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
            assert!(said.starts_with(&format!("the url of a {feature} server ")), "{said}");
        } else {
            assert_eq!(
                said,
                format!(
                    "a store with the scheme {scheme} needs the feature `{feature}`, and this build of soloist does not have it"
                )
            );
        }
    }
    let space = "the url of a store begins or ends with a space or a line end: leave it out";
    for url in [" ", " redis://:secret@h", "redis://:secret@h ", "file:/var/locks\n", "\tmemory:"] {
        assert_eq!(refused(url), space, "{url}");
    }
    let no_scheme = format!(
        "the url of a store does not begin with a scheme: write one such as file:/var/lib/myapp/locks; the schemes are {known}"
    );
    for url in [
        "",
        "\"file:/secret\"",
        "${REDIS_URL}",
        "<redis://:secret@h>",
        "DATABASE_URL=postgres://u:secret@h/app",
        "export STORE=\"file:/secret\"",
        "url: redis://:secret@h",
        "jdbc:postgresql://u:secret@h/app",
        "locks",
        "/var/locks",
        "/var/a:/b",
        "host=db password=secret",
        "//user:secret@host/a",
        "/a?password=secret",
        ":memory",
        "1:a",
        "u:secret@h/app",
    ] {
        assert_eq!(refused(url), no_scheme, "{url}");
    }
    for (url, scheme) in [
        ("localhost:6379", "localhost"),
        ("mysql2://user:secret@h", "mysql2"),
        ("Redis-Sentinel://user:secret@h", "redis-sentinel"),
        ("consul:", "consul"),
    ] {
        assert_eq!(refused(url), format!("no store has the scheme {scheme}; the schemes are {known}"), "{url}");
    }
}

#[test]
fn a_url_that_is_not_a_plain_path_is_refused() {
    assert_eq!(refused("memory:a"), "the url of a store in memory is `memory:`, with nothing after the colon");
    let relative =
        "the url of a file store needs an absolute path to a folder of its own: write file:/var/lib/myapp/locks";
    for url in [
        "file:",
        "file:locks",
        "file:./locks",
        "file:$HOME/locks",
        "file://",
        "file://server/locks",
        "file://user:secret@server/locks",
        "file:/",
        "file:///",
    ] {
        assert_eq!(refused(url), relative, "{url}");
    }
    assert_eq!(
        refused("file:/locks?mode=secret"),
        "the url of a file store has no options: give each application its own folder; in a path, write ? as %3F and # \
         as %23"
    );
    for url in ["file:/locks%", "file:/locks%2", "file:/locks%+1", "file:/locks%é", "file:/locks%FF"] {
        let said =
            "the path in the url of a store has a % that is not followed by two hexadecimal digits, or is not UTF-8";
        assert_eq!(refused(url), said, "{url}");
    }
}

#[test]
fn a_store_that_cannot_be_opened_says_what_failed_and_why() {
    let error = connect("file:/dev/null/locks").unwrap_err();
    assert_eq!(error.to_string(), "could not open the directory /dev/null/locks: Not a directory (os error 20)");
    assert!(error.source().is_none(), "nothing is said twice");
    assert!(connect("file:/tmp/a%00b").is_err());
    let is_a_file = "could not open the directory /dev/null: Not a directory (os error 20)";
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
    let wrong = "the url of a redis server is not well-formed: write redis://user:password@host:6379/0";
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
    for (build, plain, encrypted, tls) in stores {
        let refused = |url: &str, pem: &str, key: Option<&str>| build(url, pem, key).unwrap_err().to_string();
        let no_item = |method: &str, item: &str| {
            format!(
                "`{method}(..)`: there is no readable {item}: pass the contents of a PEM file and not its path; certificates \
                 come first, then the key, which must not be encrypted"
            )
        };
        for pem in [KEY, &PEM.replace('\n', "\\n"), path] {
            assert_eq!(refused(encrypted, pem, None), no_item("root_certificates", "certificate"));
        }
        let locked = KEY.replace("PRIVATE", "ENCRYPTED PRIVATE");
        for (pem, key, item) in [
            (KEY, PEM, "private key"),
            (PEM, PEM, "private key"),
            (KEY, KEY, "certificate"),
            (PEM, &locked, "private key"),
            (PEM, &KEY.replace("AAAA", "Proc-Type: 4,ENCRYPTED\n\nAAAA"), "private key"),
            (path, KEY, "certificate"),
            (PEM, path, "private key"),
        ] {
            assert_eq!(refused(encrypted, pem, Some(key)), no_item("client_certificate", item));
        }
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
    for kind in ["redis", "mysql", "postgres"] {
        for url in [
            "u:secret@h/0?timeout=2s?secret=1",
            "u:secret@h/0?timeout=2s;table=secret",
            "u:secret@h/0,postgres://u:secret@h/app",
            "u:secret@$(DB_HOST)/0",
            "u:secret@${DB_HOST}:7000/0",
            "u:secret@tcp(127.0.0.1:3306)/0",
            "u:secret@h:7000,ssl=secret/0",
            "u:secret@h/0&table=secret",
            "u:secret@h&timeout=2s&table=secret",
            "u:sec/ret@h/0",
            "u:sec?ret@h/0",
            "u:sec#ret@h/0",
            "u:sec@ret@h/0",
        ] {
            let said = refused(&format!("{kind}://{url}"));
            let start =
                format!("the url of a {kind} server has a character that can't stand there: write {kind}://user:");
            assert!(said.starts_with(&start) && said.ends_with("%3F for a ?, and so on"), "{said}");
        }
        for host in ["::1", "::1:6379", "u:secret@fe80::1:65000", "2001:db8:0:0:0:0:0:1:6379"] {
            refused(&format!("{kind}://{host}/0"));
        }
        for host in ["[::1]", "[::1]:7000", "127.0.0.1:7000"] {
            connect(&format!("{kind}://u:secret@{host}/0")).unwrap();
        }
        let said = refused(&format!("{kind}:host=127.0.0.1;user=secret"));
        let start = format!("the url of a {kind} server is not well-formed: write {kind}://user:");
        assert!(said.starts_with(&start), "{said}");
        let said = refused(&format!("{kind}://u:secret@h/0?timout=secret"));
        assert!(said.contains(" has an unknown option (did you mean `timeout`?): the options are `"), "{said}");
        // A password may have any of these characters.
        connect(&format!("{kind}://u:s$ec(r)e{{t}}<=>&a=b@h/0")).unwrap();
        for option in ["ssl_cert_reqs=secret", "ssl=true", "tlsInsecure=secret", "Prefix=secret"] {
            let said = refused(&format!("{kind}://u:secret@h/0?{option}"));
            let start = format!("the url of a {kind} server has an unknown option");
            assert!(said.starts_with(&start) && said.contains(": the options are `"), "{said}");
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
                "{of_mysql}has an unknown option: the options are `table`, `timeout`, `ssl-mode`, `socket` and \
                 `client_found_rows`; for TLS, write ?ssl-mode=REQUIRED, and pass certificates to the builder"
            ),
        ),
        ("redis://h?timeout=1m&timeout=1m", format!("{of_redis}has the option timeout twice")),
        ("redis://h?timeout=11m", "a timeout of 11m for a call of the store: use 1ms to 10m".to_owned()),
        ("postgres://u@h/app?timeout=99ms", "a timeout of 99ms for a call of the store: use 100ms to 1m".to_owned()),
        (
            "redis://h?prefix=%7Ba%7D",
            "the prefix of keys in redis has to be 1 to 100 visible ASCII characters without braces, as in `prefix(\"shop\")` or ?prefix=shop".to_owned(),
        ),
    ] {
        assert_eq!(refused(url), why, "{url}");
    }
}
