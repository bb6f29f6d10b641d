//! Shows an axum service with a schedule: async tasks, pages with the status and the metrics, and a health check for
//! the load balancer. On SIGTERM or SIGINT, the service lets runs and requests end before it exits.
//!
//! ```text
//! cargo run --features tokio,metrics,serde --example web_service -- 127.0.0.1:8080 file:/tmp/myapp-locks
//! curl http://127.0.0.1:8080/schedule  # when each event is due next
//! curl http://127.0.0.1:8080/status    # for each event: runs, last run, holder, last skip, next time; as JSON
//! curl http://127.0.0.1:8080/metrics   # for Prometheus
//! curl http://127.0.0.1:8080/health    # whether the store answers
//! curl http://127.0.0.1:8080/slow      # takes eight seconds, even if the service gets a SIGTERM meanwhile
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Json, Router, routing::get, serve};
use chrono::Utc;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use soloist::observe::{Metrics, Operator, Status};
use soloist::{Event, Run, Schedule, Shutdown, TaskResult};
use tokio::net::TcpListener;

/// The state that the handlers share.
#[derive(Clone)]
struct App {
    schedule: Schedule,
    operator: Operator,
    metrics: PrometheusHandle,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let store = arguments.next().unwrap_or_else(|| "memory:".to_owned());

    // The recorder must be installed before the first tick, because the schedule looks for it at the first tick.
    let metrics = PrometheusBuilder::new().install_recorder()?;
    let schedule = Schedule::new(soloist::connect(&store)?).with_run_log(20)?.observe(Metrics::new());
    // If a server is killed during a run, the event of the run is blocked for this time.
    let killed_blocks = Duration::from_secs(10);
    let remind = Event::spawn("carts:remind", remind).every_ten_seconds().on_one_server().without_overlapping();
    schedule
        .add(remind.lease_term(killed_blocks).grace(Duration::from_secs(2)))?
        .add(Event::spawn("prices:import", import).every_second().on_one_server().in_background())?;
    let operator = schedule.operator().within(Duration::from_secs(1));
    let app = App { operator, schedule: schedule.clone(), metrics };

    // After a signal, tasks have 20 seconds to end. Then they are cancelled, and have 6 more seconds to stop. Requests
    // have 26 seconds. A container runtime must wait for longer than 26 seconds before it kills the service.
    let shutdown = Shutdown::on_signals()?.with_drain(Duration::from_secs(20)).with_grace(Duration::from_secs(6));
    let router =
        Router::new().route("/schedule", get(due)).route("/status", get(status)).route("/metrics", get(scrape));
    let router = router.route("/health", get(health)).route("/slow", get(slow));
    let listener = TcpListener::bind(address).await?;
    println!("serving http://{}", listener.local_addr()?);
    let requests = serve(listener, router.with_state(app)).with_graceful_shutdown(shutdown.triggered());
    let serving = async {
        let served = requests.await;
        shutdown.trigger(); // if the HTTP server has failed, there was no signal, and the schedule would go on
        served
    };
    let (served, ()) = tokio::join!(serving, schedule.work_async(&shutdown));
    served?;
    println!("all requests are answered, and all leases are released");
    shutdown.finish(); // ends the process by the signal that it received
    Ok(())
}

/// Waits for two seconds, and stops early if the run is cancelled.
async fn remind(run: Run) {
    tokio::select! {
        reason = run.cancelled() => println!("{}: stopped early: {reason}", run.name()),
        () = tokio::time::sleep(Duration::from_secs(2)) => println!("{}: reminded", run.name()),
    }
}

/// Reads a file. This task need not check whether its run is cancelled, because a cancelled future is dropped at its
/// next `await`.
async fn import(run: Run) -> TaskResult {
    let token = run.fencing_token().ok_or("the run is unprotected")?;
    let hosts = tokio::fs::read_to_string("/etc/hosts").await?;
    println!("{}: {} lines under token {token}", run.name(), hosts.lines().count());
    Ok(())
}

async fn due(State(app): State<App>) -> Result<String, StatusCode> {
    let now = Utc::now();
    let next = |name: Arc<str>| Some(format!("{name}: {}\n", app.schedule.upcoming(&name, now).ok()?.next()?));
    Ok(app.schedule.names().filter_map(next).collect())
}

/// Returns the status, also while runs are running, and while the store is unavailable.
async fn status(State(app): State<App>) -> Json<Status> {
    Json(app.operator.status().await)
}

async fn scrape(State(app): State<App>) -> String {
    app.metrics.render()
}

/// Checks the store. If the store is unavailable, the answer takes a second. Meanwhile, no worker of the runtime is
/// blocked.
async fn health(State(app): State<App>) -> (StatusCode, String) {
    match app.operator.ask(Schedule::check).await {
        Ok(warnings) => (StatusCode::OK, warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

async fn slow() -> &'static str {
    tokio::time::sleep(Duration::from_secs(8)).await;
    "done\n"
}
