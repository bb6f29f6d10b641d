//! A fleet whose processes tick at the same moment. Each event runs in one process, and all other processes are
//! refused. Measures how much processor time of Redis each grant or refusal costs.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::RedisMutex;

use crate::alternate::{BOTH, Unit, Work};
use crate::machine::apart;
use crate::race::Race;
use crate::raw_redis::{Clients, RawRedis};
use crate::servers::redis::Redis;
use crate::ticks::{Ticks, each, lease_and_claim};

const EVENTS: usize = 50;

pub(crate) fn race(race: &mut Race) {
    let ticks = race.size(4, 1);
    let fleet = RefCell::new(Fleet::start(race.size(64, 2)));
    let turn = |client: &'static str| {
        let fleet = &fleet;
        move || fleet.borrow_mut().cost_of_a_decision(client, ticks)
    };
    let work = Work::new("64 processes tick 50 events: processor time of Redis, each grant or refusal", Unit::Seconds)
        .by("one script for each process", BOTH, turn("raw"))
        .by("soloist", BOTH, turn("soloist"));
    race.run(15, work);
}

struct Fleet {
    server: Redis,
    members: Vec<Member>,
    /// The minute of the last tick, counted from 1970.
    minute: i64,
}

/// A process of the fleet. It ticks for each line on its standard input, and answers with the numbers of events that it
/// ran and lost.
struct Member {
    process: Child,
    answers: Box<dyn Iterator<Item = String>>,
}

impl Fleet {
    fn start(count: usize) -> Self {
        let server = apart(Redis::start);
        let start = |_| {
            let mut command = Command::new(std::env::current_exe().expect("it runs"));
            command.args(["loser", &server.url()]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut process = command.spawn().expect("it can be started again");
            let output = BufReader::new(process.stdout.take().expect("it is piped"));
            let mut answers = output.lines().map(|line| line.expect("it is text"));
            assert_eq!(answers.next().as_deref(), Some("ready"));
            Member { process, answers: Box::new(answers) }
        };
        Self { members: (0..count).map(start).collect(), server, minute: Utc::now().timestamp() / 60 }
    }

    fn cost_of_a_decision(&mut self, client: &str, ticks: usize) -> f64 {
        let before = self.processor_time();
        (0..ticks).for_each(|_| self.tick(client));
        each(self.processor_time().saturating_sub(before), ticks * self.members.len() * EVENTS)
    }

    fn tick(&mut self, client: &str) {
        self.minute += 1;
        for member in &mut self.members {
            let input = member.process.stdin.as_mut().expect("it is piped");
            writeln!(input, "{client} {}", self.minute).expect("it reads");
        }
        let mut sums = [0, 0];
        for member in &mut self.members {
            let answer = member.answers.next().expect("it answers");
            for (sum, count) in sums.iter_mut().zip(answer.split(' ')) {
                *sum += count.parse::<usize>().expect("it is a count");
            }
        }
        assert_eq!(sums, [EVENTS, (self.members.len() - 1) * EVENTS], "won and lost");
    }

    fn processor_time(&self) -> Duration {
        let info = self.server.ask(&["INFO", "cpu"]);
        let of = |kind: &str| -> f64 {
            let seconds = info.text().lines().find_map(|line| line.strip_prefix(kind)).expect("it counts");
            seconds.parse().expect("seconds")
        };
        Duration::from_secs_f64(of("used_cpu_user:") + of("used_cpu_sys:"))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for Member { process, .. } in &mut self.members {
            drop(process.stdin.take());
            let _ = process.wait();
        }
    }
}

/// Runs one process of the fleet.
pub(crate) fn be_one(url: &str) {
    let mut ticks = Ticks::new(RedisMutex::new(url).expect("the url is in order"), EVENTS, lease_and_claim);
    let mut raw = RawRedis::connect(url);
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("it is text");
        let (client, minute) = line.split_once(' ').expect("a client and a minute");
        let minute = minute.parse().expect("a minute");
        let [ran, lost] = if client == "soloist" {
            ticks.compete(DateTime::UNIX_EPOCH + TimeDelta::minutes(minute))
        } else {
            let ran = raw.in_batches(Clients::socket, EVENTS, minute);
            [ran, EVENTS - ran]
        };
        println!("{ran} {lost}");
    }
}
