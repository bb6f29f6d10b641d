//! What to write instead of an unexpected argument, or of an unknown command.

/// Stands for each argument that is not an option.
pub(super) const WORD: &str = "";

/// Stands for each argument that sets a variable, as in `FOO=1`.
pub(super) const VARIABLE: &str = "=";

/// The advice on an unknown command of `soloist`, if no row of [`UNEXPECTED`] fits.
pub(super) const COMMANDS_OF_SOLOIST: &str =
    "The commands are run, log, locks, unlock, pause, paused, resume, check and create-table.";

/// The advice on an unknown command of a program with a schedule, if no row of [`UNEXPECTED`] fits.
pub(super) const COMMANDS_OF_A_SCHEDULE: &str = "To run one event, due or not, write: run-one EVENT. The other commands are run, work, list, next, backfill, status, \
     log, locks, unlock, pause, paused, resume and check.";

/// The advice on unexpected arguments and unknown commands. Each row has words, wrong arguments or commands, and the
/// advice. A row is for the commands whose usage has at least one of the words. The first row that fits is used. If the
/// advice is an option, the message shows the help text of this option. No row is needed for an option that has no
/// counterpart here, or whose counterpart is found at a glance: then the message lists all options of the command.
pub(super) const UNEXPECTED: &[(&[&str], &[&str], &str)] = &[
    (&["soloist run"], &["-c", "--command", "--cmd", "--shell"], "Instead of -c of `flock`, write: -- sh -c 'LINE'."),
    (&["soloist run"], &["-s", "--shared"], "There are no shared leases: only one command at a time can hold a name."),
    (
        &["soloist run"],
        &[VARIABLE, "--env"],
        "Write a variable before soloist, or as a part of the command: -- env FOO=1 COMMAND.",
    ),
    (&["soloist run"], &["-k", "--kill-after", "--grace-period"], "--grace"),
    (
        &["soloist run"],
        &["--lock", "--lockfile", "--lock-file", "--file"],
        "There is no lock file: --name NAME is the lock, and --store file:/var/lib/locks is the directory of the \
         locks.",
    ),
    (
        &["soloist run"],
        &["--working-directory", "--workdir", "--cwd", "--chdir", "--cd", "-C"],
        "To change the directory, write: -- sh -c 'cd /srv/app && exec COMMAND'.",
    ),
    (
        &["soloist run"],
        &[
            "--cron",
            "--crontab",
            "--interval",
            "--daily",
            "--hourly",
            "--at",
            "--daily-at",
            "--time",
            "--date",
            "--from",
            "--to",
        ],
        "Write the times as --every '30 2 * * *', with the five fields of the crontab line, or an interval as --every \
         90m.",
    ),
    (&["soloist run"], &["--tz", "--zone"], "--timezone"),
    (
        &["soloist run"],
        &["--ttl", "--lease", "--lease-term", "--lease-time", "--lock-at-most", "--lock-at-most-for", "--expire"],
        "--term",
    ),
    (&["soloist run"], &["--lock-at-least", "--lock-at-least-for", "--hold-for", "--min-hold"], "--hold-at-least"),
    (
        &["soloist run"],
        &["--max-runtime", "--max-time", "--time-limit", "--deadline", "--active-deadline-seconds", "--for"],
        "--timeout",
    ),
    (&["soloist run"], &["--wait-for", "--wait-timeout", "--max-wait", "--lock-timeout", "--block"], "--wait"),
    (
        &["soloist run"],
        &["--starting-deadline-seconds", "--catch-up", "--misfire-grace-time"],
        "No option sets how late a start may be: a scheduled time counts for five minutes, and with --on-one-server \
         for longer.",
    ),
    (
        &["soloist run"],
        &["--without-overlapping", "--no-overlap", "--no-overlapping", "--singleton"],
        "Leave it out: only one command with a name runs at a time.",
    ),
    (
        &["soloist run"],
        &["--at-most", "--max-parallel", "--parallel", "--concurrency", "--slots"],
        "soloist run has one run of a name at a time. Up to n at a time need a program in Rust, with Event::at_most.",
    ),
    (&["soloist run"], &["--queue", "--replace", "--overlap", "--concurrency-policy"], "--on-overlap"),
    (
        &["soloist run"],
        &["--force", "-f"],
        "No option runs a command while its name is held: soloist locks shows the holder, and soloist unlock NAME \
         ends its run.",
    ),
    (
        &["soloist run"],
        &["--dry-run"],
        "There is no --dry-run. To try a line by hand, leave out --every and --on-one-server, and write -v.",
    ),
    (
        &["soloist run"],
        &["--once", "--one-server", "--on-one-host", "--leader"],
        "To run each scheduled time on one server only, write --on-one-server, and the times in --every.",
    ),
    (
        &["soloist run"],
        &["--retries", "--max-retries", "--retry-count", "--attempts", "--backoff", "--retry-backoff"],
        "--retry",
    ),
    (&["soloist run"], &["--retry-delay", "--retry-interval", "--retry-wait"], "--retry-after"),
    (
        &["soloist run"],
        &["--output", "--out", "--log-file", "--logfile", "--stdout"],
        "To write the output of the command to a file, end the line with >>FILE.",
    ),
    (
        &["soloist run"],
        &["--notify", "--mail", "--on-failure", "--on-error", "--on-success"],
        "Let a shell do this: -- sh -c 'COMMAND || NOTIFY'.",
    ),
    (
        &["soloist run"],
        &["--between", "--unless-between", "--weekdays", "--days", "--hours"],
        "Write the hours and days in the crontab, as in --every '*/5 8-16 * * 1-5'.",
    ),
    (
        &["soloist run"],
        &["--once-per", "--period"],
        "To run once a day in the whole fleet, write --on-one-server --every '0 3 * * *'. Event::once_per needs a \
         program in Rust.",
    ),
    (
        &["soloist run"],
        &["-o", "--close", "-F", "--no-fork", "-u", "--unlock"],
        "Leave it out: the lease ends with the command and all processes that it has started.",
    ),
    (
        &["soloist run"],
        &["--detach", "-d", "--daemon", "--background"],
        "soloist run ends after its command: write & at the end of the line, or use a service of systemd.",
    ),
    (
        &["soloist run"],
        &["--instance", "--hostname", "--server"],
        "Set the name of this process in the variable SOLOIST_INSTANCE.",
    ),
    (&["soloist run"], &["--exit-code", "--conflict-code", "--on-conflict"], "--conflict-exit-code"),
    (
        &["soloist run"],
        &["--jitter", "--splay", "--random-delay", "--delay", "--sleep"],
        "Let a shell wait: -- sh -c 'sleep 10; exec COMMAND'.",
    ),
    (&["soloist run"], &["--debug", "--log-level"], "--verbose"),
    (&["soloist run"], &["--id", "--key", "--lock-name", "--job", "--event"], "--name"),
    (
        &["soloist run"],
        &["on-one-server", "name", "every", "timezone", "timeout", "wait"],
        "An option begins with two dashes, as in --on-one-server.",
    ),
    (
        &["soloist run"],
        &["9", "200"],
        "A lock on a descriptor, as in `flock 9`, is not supported: write the command after --. If the number is a \
         part of a crontab, the crontab needs quotes, as in --every '0 9 * * *'.",
    ),
    (
        &["soloist run"],
        &[WORD],
        "If it is the command, write -- before it. If -- is there, the option before -- lacks its value, as in -w 5m. \
         If it is a part of a value, the value needs quotes, as in --every '*/5 * * * *'. Without them, the shell \
         replaces each *.",
    ),
    (
        &["soloist <COMMAND>"],
        &["--name", "--every"],
        "Write the command of soloist first: soloist run --name NAME --store URL -- COMMAND.",
    ),
    (&["<COMMAND>"], &["--store", "--schedule", "--json"], "Write the command before its options."),
    (
        &["soloist <COMMAND>"],
        &["backfill", "list", "next", "run-one", "status", "work", "schedule:run", "schedule:list", "schedule:work"],
        "That is a command of a program with a schedule of its own: see \
         https://docs.rs/crate/soloist/latest/source/docs/guide/operators.md",
    ),
    (
        &["soloist <COMMAND>"],
        &["exec", "start", "lock", "flock"],
        "Write: soloist run --name NAME --store URL -- COMMAND.",
    ),
    (&["soloist <COMMAND>"], &["ls", "ps", "show", "leases", "events"], "To list the held leases, write: locks."),
    (&["<COMMAND>"], &["create-table", "migrate", "init", "setup"], "Write: soloist create-table --store URL."),
    (&["<COMMAND>"], &["unpause", "continue", "enable"], "Write: resume, or for the pause of one event: resume EVENT."),
    (&["<COMMAND>"], &["disable", "suspend", "hold"], "Write: pause --for 2d, or for one event: pause EVENT --for 2d."),
    (
        &["<COMMAND>"],
        &["release", "free", "kill", "stop", "cancel", "force-unlock"],
        "To end a run and free its lease, write: unlock NAME. To prevent later runs, write: pause EVENT.",
    ),
    (&["<COMMAND>"], &["history", "runs"], "To list the last runs of an event, write: log EVENT."),
    (&["<COMMAND>"], &["doctor", "health", "ping", "verify"], "To check the store, write: check."),
    (
        &["<COMMAND>"],
        &["ls", "ps", "show", "events"],
        "To list the events, write: list. To list the held leases, write: locks.",
    ),
    (&["<COMMAND>"], &["add", "create", "remove", "delete"], "The program adds its events, with schedule.add(..)."),
    (&["<COMMAND>"], &["start", "daemon", "serve"], "To run due events until this process is stopped, write: work."),
    (
        &["<COMMAND>"],
        &["schedule:run", "schedule:list", "schedule:work", "schedule:test"],
        "Leave schedule: out: write run, list or work, or for one event: run-one EVENT.",
    ),
    (&["completions"], &["--shell", "-s"], "Write the shell without an option: completions bash."),
    (&["unlock"], &["--all", "-a", "--prefix"], "unlock frees one name: write unlock NAME. locks lists the names."),
    (&["unlock"], &["--timeout", "-t"], "--wait"),
    (
        &["unlock"],
        &["-f", "--now", "-9"],
        "Without an option, unlock asks the holder to stop. To free the lease at once, even if its holder may still \
         be running, write --force.",
    ),
    (&["locks"], &["--prefix", "--name", "--filter", "--pattern"], "Write the prefix without an option: locks PREFIX."),
    (&["log", "locks", "list", "next", "status"], &["-o", "--output", "--format"], "--json"),
    (
        &["resume"],
        &["--in", "--at", "--for", "--after"],
        "resume ends a pause now. To let it end later, write: pause EVENT --for 2h.",
    ),
    (
        &["pause"],
        &["--from", "--to"],
        "A pause begins now. Write its length as --for 8h. An event that must not run at night has \
         `unless_between(..)`.",
    ),
    (&["pause"], &["--until", "--duration", "--timeout", "--hours", "-t"], "--for"),
    (&["pause"], &["--reason", "--message", "-m"], "--why"),
    (&["pause"], &[WORD], "Write the length of the pause as --for 2h, and the reason as --why 'disk full'."),
    (
        &["pause", "paused", "resume"],
        &["--all", "-a"],
        "Leave it out: without an event, this command is for the whole schedule.",
    ),
    (
        &["unlock", "log", "pause", "paused", "resume", "run-one", "backfill"],
        &["--name", "--event"],
        "Write the name after the command, without an option.",
    ),
    (&["create-table"], &["--dry-run", "--sql"], "--print"),
    (
        &["--store"],
        &["--table", "--prefix", "--namespace", "--timeout"],
        "This option belongs in the URL of the store: ?table=NAME, ?prefix=NAME or ?timeout=2s.",
    ),
    (
        &["--store"],
        &["--password", "--pass", "--user", "--username", "--port", "-a"],
        "The login and the port belong in the URL of the store: redis://:PASSWORD@HOST:6379. Set it in SOLOIST_STORE, \
         because other users can see the arguments of a process.",
    ),
    (
        &["--store"],
        &["--url", "--redis", "--database", "--db", "--host"],
        "Write the store as --store URL, such as file:/var/lib/locks or redis://….",
    ),
    (
        &["--store"],
        &["--app", "--application"],
        "Write the name of the application as --schedule NAME, or set SOLOIST_APP.",
    ),
    (
        &["run"],
        &["--name", "--every", "--on-one-server"],
        "This command takes no event: write run-one EVENT. To run a command under a lease, use the program soloist: \
         soloist run --name NAME -- COMMAND.",
    ),
    (&["run-one"], &["--all", "-a"], "To run all events that are due, write: run."),
    (
        &["run-one"],
        &["--force", "-f", "--now"],
        "run-one runs the event now, due or not. --ignore-filters also runs it if a filter refuses it. No option runs \
         it beside another run.",
    ),
    (
        &["run", "run-one"],
        &["--at", "--for", "--from", "--to", "--date", "--occurrence"],
        "To run past occurrences again, write: backfill EVENT --from TIME --to TIME.",
    ),
    (&["run", "run-one", "work"], &["--dry-run"], "Only backfill has --dry-run. To see what is due when, write: list."),
    (&["work"], &["--once"], "To run the events that are due now, and then to end, write: run."),
    (
        &["backfill"],
        &["--date", "--day", "--on"],
        "For one day, write its beginning and end: --from 2026-11-26 --to 2026-11-27.",
    ),
    (&["backfill"], &["--limit", "--max", "--last", "-n"], "--most"),
    (
        &["backfill"],
        &["--since", "--start", "--after", "--until", "--end", "--before"],
        "Write the beginning of the range as --from TIME, and its end as --to TIME.",
    ),
    (&["list"], &["--limit", "--count", "-n"], "--next"),
    (
        &["next"],
        &[WORD, "--until", "--to", "--within", "--hours", "--next", "--limit", "--count", "-n"],
        "Write next --for 2h to look ahead for a time, and list --next 5 for the next times of each event.",
    ),
    (
        &["run", "list", "status", "work"],
        &[WORD, "--event", "--events", "--only", "--filter", "--tag"],
        "This command takes no event. Write run-one EVENT to run one event, due or not, and log EVENT for its runs.",
    ),
];
