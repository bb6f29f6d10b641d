//! One connection to a PostgreSQL server, and the statements that are sent on it.

use std::io;

use tokio::task::JoinHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, Socket};

use super::address::Target;
use super::health;
use super::plaintext_password::Plain;
use super::server_error::{failed, not_connected};
use crate::store::sql::driver_runtime::{DriverRuntime, FAREWELL};
use crate::store::sql::session::{Dialect, Session, TextRow};
use crate::store::{remote::failure::Failure, remote::server::Connect};
use crate::time::{clock::Clock, clock::moment::Moment};

pub(super) struct Connection {
    /// `None` only while this is dropped.
    client: Option<Client>,
    /// The task that carries bytes between the client and the socket. It ends when the client is dropped.
    course: Option<JoinHandle<()>>,
    runtime: DriverRuntime,
    /// What each call begins with, and what ends with it: the limits in time of what it does; and that each of its statements
    /// sees what others have committed, so that none fails because somebody came first.
    settings: String,
}

impl Connect for Connection {
    type Target = Target;

    fn open(target: &Target, until: Moment) -> Result<Self, Failure> {
        let runtime = DriverRuntime::new().map_err(Failure::not_asked)?;
        let (lock, statement) = (target.lock_timeout, target.statement_timeout);
        let settings = format!(
            "SET LOCAL transaction_isolation = 'read committed'; SET LOCAL lock_timeout = {lock}; \
             SET LOCAL statement_timeout = {statement}; "
        );
        let (client, course) = connect(target, &runtime, until)?;
        Ok(Self { client: Some(client), course, runtime, settings })
    }

    fn is_closed(&mut self) -> bool {
        self.client.as_ref().is_none_or(Client::is_closed)
    }
}

/// The task carries bytes between the client and the socket.
type Connected = (Client, Option<JoinHandle<()>>);

fn connect(target: &Target, runtime: &DriverRuntime, until: Moment) -> Result<Connected, Failure> {
    #[cfg(feature = "postgres-tls")]
    if target.address.is_encrypted() {
        let config = target.tls.config().map_err(Failure::not_asked)?;
        let tls = tokio_postgres_rustls::MakeRustlsConnect::new((*config).clone());
        return connect_by(tls, &target.address.config, runtime, until);
    }
    if target.address.is_a_socket() {
        return connect_by(NoTls, &target.address.config, runtime, until);
    }
    let (plain, config) = Plain::of(&target.address);
    connect_by(plain, &config, runtime, until)
}

fn connect_by<T>(by: T, config: &Config, runtime: &DriverRuntime, until: Moment) -> Result<Connected, Failure>
where
    T: MakeTlsConnect<Socket, Stream: Send + 'static>,
{
    let connected = runtime.until(until, config.connect(by)).map_err(Failure::not_asked)?;
    let (client, connection) = connected.map_err(|error| not_connected(&error).while_connecting("max_connections"))?;
    // What ends it is told to whoever asks next.
    let course = runtime.beside(async move { _ = connection.await });
    Ok((client, course))
}

impl Session for Connection {
    const DIALECT: Dialect = Dialect {
        kind: "postgres",
        store: "PostgresMutex",
        quote: '"',
        schema: include_str!("statements/schema.sql"),
        look: include_str!("statements/look.sql"),
        shorten: include_str!("statements/shorten.sql"),
        admit: include_str!("statements/admit.sql"),
        row: include_str!("statements/row.sql"),
        end: include_str!("statements/end.sql"),
        give_back: Some(include_str!("statements/give_back.sql")),
        clean_up: include_str!("statements/clean_up.sql"),
        health: include_str!("statements/health.sql"),
        warnings: health::warnings,
        no_table: &["42P01", "42703"],
    };

    fn query(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure> {
        let Some(client) = &self.client else { return Err(Failure::not_asked(io::ErrorKind::NotConnected.into())) };
        let statements = format!("{}{statements}", self.settings);
        let answered = self.runtime.until(until, client.simple_query(&statements)).map_err(Failure::unanswered)?;
        let messages = answered.map_err(|error| failed(&error))?;
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(rows.map(|row| (0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect()).collect())
    }

    fn plaintext(target: &Target) -> Option<&'static str> {
        target.address.is_overheard().then_some("?sslmode=require")
    }
}

/// Says goodbye to the server. To close the socket is not enough: a child process of ours may have it open, too.
impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.client.take());
        if let Some(course) = self.course.take() {
            let until = Clock::system().moment().plus(FAREWELL);
            let _ = self.runtime.until(until, course); // However that goes, it is closed.
        }
    }
}
