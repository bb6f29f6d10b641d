//! The failures of each command: exit codes and messages.

use std::collections::BTreeSet;

use super::*;

/// Shell functions for the rows: a lease that is held, and a file in the store that belongs to another program.
const WORDS: &str = r#"
taken() { # by a run with these options, whose process is $p
  rm -f started
  $S run --name j "$@" -- sh -c ': >started; exec sleep 600' 2>taken.log & p=$!
  until [ -e started ]; do sleep 0.05; done
}
end() { kill $p; wait $p 2>/dev/null; exit $1; }
used() { mkdir -m 700 store; }
foreign() { $S run --name j -- true; for file in store/*.state; do echo 'a shopping list' >$file; done; }
full() { trap '' XFSZ; prlimit --fsize=0 "$@"; }
nowhere=redis://127.0.0.1:1
slowly() { # with each thread of the program three seconds late
  cc -shared -fPIC -o slow.so -x c - <<'END' || exit
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>
int pthread_create(pthread_t *thread, const pthread_attr_t *options, void *(*work)(void *), void *argument) {
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
  sleep(3);
  return create(thread, options, work, argument);
}
END
  LD_PRELOAD=$PWD/slow.so "$@"
}
stubborn() { # this command, which is ended by a line of the shell, within a grace that a busy shell needs
  $S run --name j --term 30s --grace ${grace:-6s} -- sh -c "$1; : >ready; while :; do sleep 0.05; done" 2>stubborn.log & p=$!
  until [ -e ready ]; do sleep 0.05; done
  eval "$2"; wait $p; code=$?; cat stubborn.log; exit $code
}
daily() { $S run --name j --on-one-server --every '0 12 * * *' --timezone UTC -- "$@"; }
at() { export SOLOIST_TEST_NOW=2026-03-01T$1Z; }
"#;

/// The rows of the table in the book: its first two cells; and a line that shows the row to be true.
const GUIDE: &[(&str, &str, (&str, i32, &str))] = &[
    ("the command's own", "the command has ended", ("$S run --name x -v -- true", 0, "soloist: x: succeeded in ")),
    (
        "the command's own",
        "the command started more than five minutes late, with `--on-one-server`",
        ("at 12:07:00; daily sh -c 'exit 7'", 7, "soloist: j: 7 min 0 s late: exited with 7 after "),
    ),
    (
        "0",
        "this scheduled time is taken already, by this server or another, or waits in a queue",
        ("at 12:00:20; daily true; daily false", 0, ""),
    ),
    (
        "1, or the code of `-E`",
        "the command is running already",
        ("taken; $S run --name j -E 9 -- true; end $?", 9, ""),
    ),
    ("1, or the code of `-E`", "the command is paused", ("used; $S pause j >log; $S run --name j -E 9 -- true", 9, "")),
    (
        "1, or the code of `-E`",
        "the command is running already, in another application",
        (
            "taken --schedule billing; $S run --name j --schedule shop -- true; end $?",
            1,
            ", application billing, since ",
        ),
    ),
    (
        "1, or the code of `-E`; `-E 0` counts as 1",
        "the command is running already, for longer than `--stuck-after`",
        (
            "taken; $S run --name j -E 0 --stuck-after 1ms -- true; end $?",
            1,
            "soloist: j: skipped, still running after ",
        ),
    ),
    ("64", "wrong arguments", ("$S run --no-such", 64, "error: unexpected argument '--no-such' found")),
    (
        "64",
        "`--store` is no URL of a store",
        (
            "$S run --store consul: --name j -- true",
            64,
            "soloist: no store has the scheme consul; the schemes are memory, ",
        ),
    ),
    (
        "64",
        "no time of the crontab in `--every` was in the last five minutes, and the command can't run for an earlier time",
        ("at 12:00:20; daily true; at 12:07:00; daily true", 64, "\"0 12 * * *\" was not due in the last 5 minutes: "),
    ),
    (
        "66",
        "the store can't be opened",
        ("$S run --store file:/proc/locks --name j -- true", 66, "soloist: could not open the directory /proc/locks: "),
    ),
    (
        "66",
        "the store gave no answer",
        (
            "$S run --store $nowhere --name j -- true",
            66,
            "soloist: j: skipped, the store did not answer: could not admit ",
        ),
    ),
    (
        "66",
        "the command succeeded without protection, with `--on-outage run`",
        (
            "$S run --store $nowhere --on-outage run --name j -- true",
            66,
            ", but unprotected, because the store gave no decision: ",
        ),
    ),
    (
        "69",
        "the command could not be started",
        ("$S run --name j -- nosuch", 69, ": could not start `nosuch`: No such file or directory (os error 2)"),
    ),
    (
        "75",
        "the lease was lost, and the command was ended",
        // On a busy machine, the command may hear SIGKILL first.
        ("stubborn : '$S unlock --force j >log'", 75, "); the lease was lost at "),
    ),
    (
        "75",
        "the lease was lost before the command could be started",
        ("slowly $S run --name j --term 2s -- true", 75, "soloist: j: not started; the lease was lost at "),
    ),
    (
        "75",
        "the lease was lost, but the command succeeded",
        ("$S run --name j -- $S unlock --force j >log", 75, "soloist: j: succeeded in "),
    ),
    (
        "124",
        "`--timeout` ended the command",
        ("$S run --name j --timeout 1s -- sleep 600", 124, "soloist: j: timed out after 1.0 s"),
    ),
    (
        "128 + n",
        "signal n ended the command; if n is SIGINT, `soloist` also ends itself by SIGINT",
        ("$S run --name j -v -- sh -c 'kill -KILL $$'", 137, "soloist: j: ended by signal 9 (SIGKILL) after "),
    ),
    (
        "143",
        "`soloist unlock` ended the command, or a later scheduled time replaced it",
        ("stubborn : '$S unlock j >log'", 143, ", because an operator frees its lease: "),
    ),
    (
        "none: `soloist` ends by that signal",
        "`soloist` received SIGTERM, SIGINT, SIGQUIT or SIGHUP",
        ("taken; kill $p; wait $p 2>log; code=$?; cat taken.log; exit $code", 143, ""),
    ),
];

/// A shell line, with `$S` for `soloist` and `$C` for a program with a schedule; its exit code; and its message,
/// or nothing at all.
const SOLOIST_RUN: &[(&str, i32, &str)] = &[
    // An operator ended it, whatever it makes of that.
    ("stubborn \"trap 'exit 0' TERM\" '$S unlock j >log'", 143, "; exited with 0"),
    ("stubborn \"trap 'exit 5' TERM\" '$S unlock j >log'", 143, "; exited with 5"),
    ("grace=200ms; stubborn \"trap '' TERM\" '$S unlock j >log'", 143, "; ended by signal 9 (SIGKILL)"),
    ("$S run --name j -- sh -c 'kill -INT $$'", 130, ""),
    // The command's own code.
    ("$S run --name j -- true", 0, ""),
    ("$S run --name j -- false", 1, ""),
    ("$S run --name j -- sh -c 'exit 7'", 7, ""),
    ("$S run --name j -- sh -c 'exit 255'", 255, ""),
    ("$S run --name j -v -- sh -c 'exit 7'", 7, "soloist: j: exited with 7 after "),
    // 128 and the number of the signal that ended it.
    ("$S run --name j -- sh -c 'kill -KILL $$'", 137, ""),
    ("$S run --name j -- sh -c 'kill -TERM $$'", 143, ""),
    // The lease is held.
    ("taken; $S run --name j -- true; end $?", 1, ""),
    ("taken; $S run --name j -E 99 -- true; end $?", 99, ""),
    ("taken; $S run --name j -E 0 -- false; end $?", 0, ""),
    ("taken; $S run --name j -v -- true; end $?", 1, "soloist: j: skipped, still running: "),
    ("taken; $S run --name j --wait 300ms -E 99 -- true; end $?", 99, ""),
    // It is paused.
    ("used; $S pause --why 'a move' >log; $S run --name j -E 99 -- true", 99, ""),
    ("used; $S pause >log; $S run --name j -v -E 99 -- true", 99, "soloist: j: skipped, paused by "),
    ("used; $S pause j >log; $S run --name j -- true", 1, ""),
    ("used; $S pause j >log; $S run --name j -v -- true", 1, "soloist: j: skipped, paused by "),
    // Another server has this time, as intended.
    (
        "on() { $S run --name j --on-one-server --every '* * * * *' -- \"$@\"; }; export SOLOIST_TEST_NOW=2026-03-01T12:00:00Z; on true; on false",
        0,
        "",
    ),
    // The arguments.
    ("$S run", 64, "error: the following required arguments were not provided:"),
    ("$S run --name j", 64, "<COMMAND>..."),
    ("$S run --name j true", 64, "unexpected argument 'true'"),
    ("ln -s $S locker; ./locker run --name j true", 64, "\nIf it is the command, write -- before it. "),
    ("$S run -- true", 64, "--name <NAME>"),
    ("$S run --nam j -- true", 64, "\ntip: did you mean `--name`?\n"),
    ("SOLOIST_STORE=; unset SOLOIST_STORE; $S run --name j -- true", 64, "--store <URL>"),
    ("$S run --name '' -- true", 64, "a value is required for '--name <NAME>' but none was supplied"),
    ("SOLOIST_APP= $S run --name j -- true", 64, "soloist: the name of the schedule is empty"),
    ("$S run --name j -- ''", 64, "soloist: event `j`: its command is empty: pass a program, or a line of the shell\n"),
    (
        "$S run --name j --wait soon -- true",
        64,
        "invalid value 'soon' for '--wait <TIME>': write a time such as `90s`, `5m`, `1h 30m`, `150d`, or a number of seconds",
    ),
    ("$S run --name j --wait -1 -- true", 64, "invalid value '-1' for '--wait <TIME>': write a time such as `90s`"),
    (
        "$S run --name j -E -1 -- true",
        64,
        "invalid value '-1' for '--conflict-exit-code <N>': write a whole number from 0 to 255",
    ),
    ("$S run --name j --every '' -- true", 64, "soloist: --every `` is neither five fields of a crontab, such as "),
    ("$S run --name j --every 500ms -- true", 64, "`--every 500ms`: use whole seconds, from 1s to ten years"),
    ("$S run --name j --term 7305d -- true", 64, "soloist: event `j`: `--term 7305d`: use 100ms to ten years"),
    ("$S run --name j --wait 5 --timeout 60.5 -- true", 0, ""),
    ("$S run --name j --wait 5s --every '* * * * *' -- true", 64, "cannot be used with"),
    (
        "$S run --name j --wait 5s --every '* * * * *' -- true",
        64,
        "error: the argument '--wait <TIME>' cannot be used with '--every <TIMES>'",
    ),
    ("$S run --name j --wait 5s --on-overlap queue-one -- true", 64, "'--wait <TIME>' cannot be used with"),
    ("$S run --name j --wait 5s --on-one-server -- true", 64, "cannot be used with"),
    ("$S run --name j --wait 5s --timezone UTC -- true", 64, "cannot be used with"),
    ("$S run --name j --no-such -- true 2>&1 | grep -q 'as a value'; test $? = 1", 0, ""),
    ("$S run --name j --timezone UTC -- true", 64, "--every <TIMES>"),
    ("$S run --name j --on-one-server -- true", 64, "--every <TIMES>"),
    (
        "$S run --name j --every '61 * * * *' -- true",
        64,
        "soloist: event `j`: `61 * * * *`: minute `61` is outside of 0-59",
    ),
    (
        "$S run --name j --every '@daily' --timezone Nowhere -- true",
        64,
        "soloist: event `j`: `--timezone`: `Nowhere` is not a time zone: write a name such as ",
    ),
    (
        "$S run --name j --every '* * * * *' --on-overlap dance -- true",
        64,
        "[possible values: skip, queue-one, replace]",
    ),
    ("$S run --name j --on-outage dance -- true", 64, "[possible values: skip, run]"),
    (
        "$S run --name j -E 256 -- true",
        64,
        "invalid value '256' for '--conflict-exit-code <N>': write a whole number from 0 to 255",
    ),
    ("$S run --name j -E abc -- true", 64, "invalid value 'abc' for '--conflict-exit-code <N>': "),
    (
        "$S run --name j --every 5 -- true",
        64,
        "soloist: --every `5` is neither five fields of a crontab, such as '*/5 * * * *', nor an interval with a unit, such as 90m\n",
    ),
    ("$S run --name j --every '@every 5m' -- true", 64, "@hourly; `@reboot` is no time; an interval is `--every 5m`\n"),
    (
        "$S run --name j --every '*/90 * * * *' -- true",
        64,
        "has a step that is zero or larger than its range; an interval is `--every 90m` (column 1)\n",
    ),
    (
        "$S run --name j --every '0 30 2 * * *' -- true",
        64,
        "leave out seconds, a year, a zone, a command, and spaces in lists\n",
    ),
    ("$S run --name j --every 'H * * * *' -- true", 64, "minute `H` can't be read: an item is `*`, `*/2`, `3`, "),
    (
        "$S run --name j --every @reboot -- true",
        64,
        "@daily, @midnight, @hourly; `@reboot` is no time; an interval is `--every 5m`\n",
    ),
    (
        "$S run --name j --every '*/5 * * * *' --hold-at-least 5m -- true",
        64,
        "soloist: event `j`: `--hold-at-least 5m`: use less than 5m, because a later occurrence can start then, ",
    ),
    ("$S run --name j --every 5M -- true", 64, "soloist: --every `5M` is neither five fields of a crontab, such as "),
    (
        "$S run --name j --timeout 5M -- true",
        64,
        "invalid value '5M' for '--timeout <TIME>': write a time such as `90s`, `5m`, `1h 30m`, `150d`, or ",
    ),
    ("at 12:00:20; $S run --name j --every '30 8 * * *' --timezone -03:30 -- true", 0, ""),
    ("$S run --name j --every -5m -- true", 64, "soloist: --every `-5m` is neither five fields of a crontab, "),
    (
        "$S run --name j --every 90m --timezone UTC -- true",
        64,
        "soloist: --timezone has no effect on an interval in --every",
    ),
    ("$S run --name j -c 'true | true'", 64, "Instead of -c of `flock`, write: -- sh -c 'LINE'."),
    (
        "touch a b; $S run --name j --every */5 * * * * -- true",
        64,
        "the value needs quotes, as in --every '*/5 * * * *'.\n",
    ),
    (
        "$S run --name j -w -- true",
        64,
        "If it is the command, write -- before it. If -- is there, the option before -- lacks its value. ",
    ),
    (
        "$S run --name j --timeout 5m --kill-after 10s -- true",
        64,
        "error: unexpected argument '--kill-after' found\n\nUsage: soloist run --store <URL> --name <NAME> --timeout <TIME> -- <COMMAND>...\n\nFor more information, try '--help'.\n\nWrite: ",
    ),
    (
        "SOLOIST_APP='shop ' $S run --name j -- true",
        64,
        "soloist: the name of the schedule begins or ends with a space: leave it out\n",
    ),
    ("$S run --name j --config x -- true 2>&1 | grep -q 'did you mean'; test $? = 1", 0, ""),
    ("$S run --name j --log -- true", 64, "a value is required for '--log <N>' but none was supplied"),
    ("$S run --name j --command 'true | true'", 64, "Instead of -c of `flock`, write: -- sh -c 'LINE'."),
    (
        "$S run --name j --retry 0 --retry-after 1s -- true",
        64,
        "invalid value '0' for '--retry <N>': write a whole number from 1 to 1000",
    ),
    ("$S run --name j -- --on-one-server true", 69, "could not start `--on-one-server`: No such file or directory"),
    (
        "$S run --name j",
        64,
        "\nIn a crontab, a % ends the command: write \\% instead, or set SOLOIST_STORE in a line of its own.\n",
    ),
    ("$S run --name j --every 'every 5 minutes' -- true", 64, "soloist: event `j`: `every 5 minutes`: "),
    ("$S run --name j -- $S run --name k -- true", 0, ""),
    (
        "$S run --name j --log 5 -- true; for f in store/*.runs; do rm $f; mkdir $f; done; $S run --name j --log 5 -- true",
        0,
        "soloist: j: the run is not in the log: ",
    ),
    (
        "$S run --name j --log 5 -- true; for f in store/*.runs; do rm $f; mkdir $f; done; $S pause j >log; $S run --name j --log 5 -- true",
        1,
        "",
    ),
    ("$S run --name j --log 0 -- true", 64, "write a whole number from 1 to 1000"),
    (
        "$S run --name j --term 1s -- true",
        64,
        "soloist: event `j`: its lease of 1s is too short: it must last at least 2s, twice the sum of the `--grace`, which is 0s",
    ),
    ("$S run --name j --term 8s --grace 5s -- true", 64, "use a longer `--term`, or a shorter `--grace`"),
    (
        "$S run --name j --grace 18446744073709551615 -- true",
        64,
        "soloist: event `j`: `--grace 18446744073709551615s`: use 0s to 1h",
    ),
    ("$S run --name j --wait 18446744073709551615 -- true", 0, ""),
    ("$S run --name j --wait 1e30 -- true", 64, "invalid value '1e30' for '--wait <TIME>'"),
    ("$S run --name j --schedule '' -- true", 64, "soloist: the name of the schedule is empty"),
    (
        "export SOLOIST_TEST_NOW=2026-03-01T12:07:00Z; $S run --name j --every '0 12 * * *' --timezone UTC -- true",
        64,
        "soloist: \"0 12 * * *\" was not due in the last 5 minutes: write the same times in --every as in the crontab (their zone here is UTC; for CRON_TZ, write --timezone); to run the command now, leave out --every and --on-one-server",
    ),
    ("SOLOIST_TEST_NOW=noon $S run --name j -- true", 64, "soloist: SOLOIST_TEST_NOW must be a time such as "),
    (
        "export SOLOIST_TEST_NOW=$(printf '\\377'); $S run --name j --every '* * * * *' -- true",
        64,
        "soloist: SOLOIST_TEST_NOW must be a time such as ",
    ),
    (
        "$S run --store locks --name j -- true",
        64,
        "the url of a store does not begin with a scheme: write one such as file:",
    ),
    (
        "$S run --store '' --name j -- true",
        64,
        "the url of a store does not begin with a scheme: write one such as file:",
    ),
    ("$S run --store file:locks --name j -- true", 64, "the url of a file store needs an absolute path"),
    ("$S run --store redis:// --name j -- true", 64, "the url of a redis server has no host"),
    (
        "$S run --store 'postgres://x y' --name j -- true",
        64,
        "the url of a postgres server has a character that can't stand there",
    ),
    ("$S run --store memory: --name j -- true", 64, "a store in memory is seen by this process alone"),
    // The store can't be opened.
    ("$S run --store file:/proc/locks --name j -- true", 66, "soloist: could not open the directory /proc/locks: "),
    ("$S run --store file:/etc/passwd/locks --name j -- true", 66, "Not a directory"),
    // The store does not answer, or refuses.
    (
        "$S run --store $nowhere --name j -- true",
        66,
        "soloist: j: skipped, the store did not answer: could not admit lease/j in redis://127.0.0.1:1",
    ),
    ("$S run --store $nowhere --on-outage skip --name j -- true", 66, "Connection refused"),
    (
        "$S run --store $nowhere --on-outage run --name j -- sh -c 'exit 7'",
        7,
        "unprotected, because the store gave no decision: ",
    ),
    ("foreign; $S run --name j -- true", 66, ".state"),
    ("full $S run --name j -- true", 66, ".state: File too large"),
    // The command can't be started.
    ("$S run --name j -- /no/command", 69, "soloist: j: failed after "),
    (
        "PATH=/usr/bin:/bin $S run --name j -- no-such-command",
        69,
        "could not start `no-such-command`: No such file or directory (os error 2): it is in no folder of PATH=/usr/bin:/bin: write its whole path, or let a shell read the line, with `-- sh -c 'LINE'`",
    ),
    (
        "$S run --name j -- 'echo hi'",
        69,
        "could not start `echo hi`: No such file or directory (os error 2): it is in no folder of ",
    ),
    ("$S run --name j -- FOO=1 true", 69, "or let a shell read the line, with `-- sh -c 'LINE'`"),
    ("$S run --name j -- env FOO=1 sh -c 'exit $FOO'", 1, ""),
    ("$S run --name j -- export A=1", 69, "or let a shell read the line, with `-- sh -c 'LINE'`"),
    ("$S run --name j -- '$HOME/bin/backup'", 69, "a relative path begins at the current directory, "),
    (
        "printf '#!/bin/sh\\r\\n' >script; chmod +x script; $S run --name j -- ./script",
        69,
        "could not start `./script`: No such file or directory (os error 2): the file exists, but its interpreter `/bin/sh\\r` does not: correct its first line",
    ),
    (
        "echo '#! /no/shell -e' >script; chmod +x script; $S run --name j -- ./script",
        69,
        "the file exists, but its interpreter `/no/shell` does not: correct its first line",
    ),
    (
        "$S run --name j -- ./backup.sh",
        69,
        "could not start `./backup.sh`: No such file or directory (os error 2): a relative path begins at the current directory, /",
    ),
    ("touch plain; $S run --name j -- ./plain", 69, "could not start `./plain`: Permission denied"),
    ("$S run --name j -- .", 69, "could not start `.`: Permission denied"),
    // The lease was lost.
    (
        "taken --term 9s; $S unlock --force j; wait $p; code=$?; cat taken.log; exit $code",
        75,
        "; the lease was lost at ",
    ),
    // The command took too long.
    ("$S run --name j --timeout 200ms -- sleep 600", 124, "; ended by signal 15 (SIGTERM)"),
    ("trap '' TERM; $S run --name j --timeout 200ms --grace 100ms -- sleep 600", 124, "(SIGKILL)"),
    // Standard output that takes nothing is the command's affair.
    ("$S run --name j -- cat /etc/passwd >/dev/full", 1, "No space left on device"),
    ("$S run --name j -- sh -c 'exit 7' >&- 2>&-", 7, ""),
    ("$S run --name j -- /no/command >&- 2>&-", 69, ""),
];

/// The rows of the other commands of both programs.
const COMMANDS: &[(&str, i32, &str)] = &[
    ("used; $S locks", 0, "nothing is held"),
    ("used; $S check", 0, "the store answers"),
    ("$S help", 0, "Usage: soloist <COMMAND>"),
    ("$S help run", 0, "Usage: soloist run"),
    ("$S --help", 0, "Usage: soloist <COMMAND>"),
    ("$S run --help", 0, "Usage: soloist run"),
    ("$S --version", 0, "soloist "),
    ("$S completions zsh", 0, "#compdef soloist"),
    ("$S man", 0, ".TH soloist 1"),
    ("$S man run", 0, ".TH soloist-run 1"),
    ("$C man list", 0, "schedule_cli-list"),
    ("$C man help", 0, ".TH schedule_cli-help 1"),
    ("$C help man", 0, "try `man -l <(schedule_cli man)`"),
    ("ln -s $C shop.v2; ./shop.v2 man", 0, ".TH shop.v2 1"),
    ("ln -s $C shop.exe; ./shop.exe man", 0, ".TH shop 1"),
    ("$S create-table --print --store mysql://nobody@127.0.0.1:1/app", 0, "CREATE TABLE IF NOT EXISTS soloist_mutexes"),
    (
        "$S create-table --print --store 'postgres://nobody@127.0.0.1:1/app'",
        0,
        "CREATE TABLE IF NOT EXISTS soloist_mutexes",
    ),
    ("$C list", 0, "carts:remind"),
    ("$C list --next -1", 2, "invalid value '-1' for '--next <N>': write a whole number from 1 to 65535"),
    ("used; $S pause --for -1h", 2, "invalid value '-1h' for '--for <TIME>': write a time such as `90s`"),
    ("used; $S log", 0, "no run is on record: "),
    (
        "keep() { $S run --log 5 --name $1 -- true; sleep 0.1; }; keep db:backup; keep mail; $S log | awk '{print $1}' | xargs",
        0,
        "EVENT mail db:backup\n",
    ),
    (
        "$S run --log 5 --name db:backup -- true; $S log db:bakup",
        0,
        "`log` without a name lists the events that have a log\n",
    ),
    // There is nothing to do, or it can't be done.
    ("used; $S unlock j", 1, "j is free: nobody holds it"),
    ("taken; $S unlock J; end $?", 1, "J is free: nobody holds it; `locks` lists the held names\n"),
    ("taken; $S locks lease/; $S locks lease/j; end $?", 0, "no held name begins with `lease/j`\n"),
    ("used; $S unlock --kill j", 1, "j is free: nobody holds it"),
    ("used; $S unlock --force j", 1, "j is free: nobody holds it"),
    ("used; $S resume", 1, "the schedule soloist was not paused"),
    ("used; $S resume j", 1, "j of the schedule soloist was not paused"),
    ("used; $S paused", 1, "nothing on the schedule soloist is paused"),
    ("used; $S pause --for 0", 2, ": use a later end; `resume` ends a pause"),
    ("used; $S paused j", 1, "j of the schedule soloist is not paused"),
    ("used; $S pause >log; $S paused", 0, "the schedule soloist is paused by "),
    ("used; $S pause j >log; $S paused j", 0, "j of the schedule soloist is paused by "),
    ("used; $S pause --for 90", 0, "the schedule soloist is paused until "),
    ("taken; $C unlock j --wait 0; end $?", 1, "soloist: j is still held, and is free in "),
    ("SCHEDULE_STORE=consul: $C list", 1, "soloist: no store has the scheme consul"),
    ("$C run-one prices:import", 1, "the supplier is out"),
    // The arguments.
    ("$S", 2, "Usage: soloist <COMMAND>"),
    ("$S sideways", 2, "error: unrecognized subcommand 'sideways'"),
    ("$C sideways", 2, "error: unrecognized subcommand 'sideways'"),
    ("$S help sideways", 2, "error: unrecognized subcommand 'sideways'"),
    ("$C -- list", 2, "tip: subcommand 'list' exists; to use it, remove the '--' before it\n"),
    ("$S log x --tag 2>&1 | grep 'did you mean'; test $? = 1", 0, ""),
    ("$S sideways 2>&1 | grep run-one", 1, ""),
    // The file of the program has another name.
    ("ln -s $S locker; ./locker sideways", 2, "error: unrecognized subcommand 'sideways'"),
    ("$S unpause j 2>&1 | grep tip", 1, ""),
    ("$S --name j -- true", 2, "error: unexpected argument '--name' found"),
    ("$C list --next 0", 2, "invalid value '0' for '--next <N>': write a whole number from 1 to 65535"),
    ("$C list --next x", 2, "invalid value 'x' for '--next <N>': write a whole number from 1 to 65535"),
    ("$S status 2>&1 | grep tip; $S status", 2, "error: unrecognized subcommand 'status'\n\nUsage: "),
    ("used; $S pause hours --for 2h", 0, "hours of the schedule soloist is paused until "),
    ("used; $S pause j --for 2 hours", 2, "error: unexpected argument 'hours' found"),
    ("used; $S pause --for 2 hours", 2, "soloist: a time with a space needs quotes: write `--for '2 hours'`\n"),
    ("$C dispatch 2>&1 | grep tip; $C dispatch", 2, "error: unrecognized subcommand 'dispatch'\n\nUsage: "),
    ("used; $S pause 'a b' --schedule 'my shop'", 0, "; `resume a b` ends the pause\n"),
    ("used; $S pause --why '-5 °C' >log; $S paused", 0, ": -5 °C\n"),
    (
        "used; SOLOIST_APP=shop $S pause j >log; $S resume j",
        1,
        "j of the schedule soloist was not paused; `paused` lists the pauses; another application is named by --schedule or SOLOIST_APP\n",
    ),
    ("used; $S paused j", 1, "j of the schedule soloist is not paused; another application is named by "),
    ("used; $S resume j --schedule shop", 1, "j of the schedule shop was not paused; `paused` lists the pauses\n"),
    ("$C list --next 2h", 2, "invalid value '2h' for '--next <N>': "),
    ("$C run-one db:backup --timeout 5m", 2, "error: unexpected argument '--timeout' found"),
    ("$C backfill db:backup --from -3d", 2, " is no time: write `2026-03-01`, or "),
    ("$C run db:backup", 2, "error: unexpected argument 'db:backup' found"),
    ("$S pause j 2h", 2, "error: unexpected argument '2h' found"),
    ("SCHEDULE_STORE=memory: $C pause", 2, "soloist: a store in memory is seen by this process alone: use file:/… "),
    ("SCHEDULE_STORE=memory: $C resume", 2, "soloist: a store in memory is seen by this process alone"),
    ("SCHEDULE_STORE=memory: $C unlock db:backup", 2, "soloist: a store in memory is seen by this process alone"),
    ("SCHEDULE_STORE=memory: $C locks", 0, "nothing is held"),
    (
        "SCHEDULE_STORE=memory: $C check",
        0,
        "the store answers; a store in memory protects its events in this process only\n",
    ),
    ("$C next --for 3652d", 2, "soloist: more than 100000 times are due within 3652 d 0 h: write a shorter `--for`"),
    ("$C next --for 5M", 2, "invalid value '5M' for '--for <TIME>': write a time such as "),
    ("$C unlock db:bakup", 1, "db:bakup is free: nobody holds it; `locks` lists the held names\n"),
    ("$C next --for soon", 2, "invalid value 'soon' for '--for <TIME>'"),
    ("$C run-one", 2, "<EVENT>"),
    ("$C backfill carts:remind", 2, "--from <TIME>"),
    (
        "$C backfill carts:remind --from 2025-03-02 --to 2025-03-02 -y",
        2,
        "soloist: the range from 2025-03-02 00:00:00 UTC until ",
    ),
    ("$C backfill carts:remind --from yesterday", 2, "soloist: `--from` `yesterday` is no time: write "),
    (
        "$C backfill carts:remind --from 2025-03-02 --to 2025-03-03T12:00:00+0100",
        2,
        "soloist: `--to` `2025-03-03T12:00:00+0100` is no time: write `2026-03-01`, or `2026-03-01 12:00` (on the clocks of UTC), or `2026-03-01T12:00:00Z`, or, with an offset, `2026-03-01T12:00:00+01:00`\n",
    ),
    ("$C backfill carts:remind --from 2099-03-02", 2, "soloist: the range from 2099-03-02 00:00:00 UTC until "),
    (
        "$C backfill carts:remind --from 2025-03-02 --to 2099-03-02",
        2,
        "soloist: the range ends at 2099-03-02 00:00:00 UTC, ",
    ),
    ("$C backfill carts:remind --from 2000-01-01", 2, "soloist: more than 1,000,000 occurrences are due from "),
    ("$C backfill carts:remind --from 2025-03-02 --most 10001", 2, "write a whole number from 1 to 10000"),
    ("$C backfill carts:remind --from 2025-03-02 --again ''", 2, "soloist: the label of `again` is empty"),
    (
        "$C backfill cart:remind --from 2025-03-02",
        2,
        "soloist: there is no event `cart:remind` in the schedule; did you mean `carts:remind`?",
    ),
    ("$S unlock", 2, "<NAME>"),
    ("$S unlock --kill --force j", 2, "cannot be used with"),
    ("used; $S unlock ''", 2, "soloist: "),
    ("used; $S pause 2h", 2, "soloist: `2h` is a time, and no event: write `pause --for 2h`"),
    ("used; $S pause 90 --for 3h", 2, "soloist: `90` is a time, and no event: write `pause --for 90`"),
    ("$S locks --store consul:", 2, "soloist: no store has the scheme consul"),
    ("$S check --store file:relative", 2, "soloist: the url of a file store needs an absolute path"),
    ("$S completions fish-and-chips", 2, "[possible values: bash, "),
    ("$S man sideways", 2, "invalid value 'sideways' for '[COMMAND]'\n  [possible values: run, log, "),
    (
        "$S create-table --print --store redis://127.0.0.1",
        2,
        "a store with the scheme redis has no table, and needs none",
    ),
    ("SOLOIST_STORE=; unset SOLOIST_STORE; $S locks", 2, "--store <URL>"),
    ("used; $S pause --for soon", 2, "invalid value 'soon' for '--for <TIME>'"),
    ("used; $S pause --for 7300d", 2, "is longer than ten years"),
    ("used; $S pause --for 9000000000000", 2, "is longer than ten years"),
    ("used; $S pause --for 1year", 2, "write a time such as `90s`, `5m`, `1h 30m`, `150d`, or a number of seconds"),
    ("used; $S pause --for 0s", 2, ": use a later end; `resume` ends a pause"),
    // There is no such event.
    (
        "$C run-one sideways",
        2,
        "soloist: there is no event `sideways` in the schedule; it has `carts:remind`, `db:backup` and `prices:import`",
    ),
    ("$C run-one backup", 2, "did you mean `db:backup`?"),
    ("$C log sideways", 2, "soloist: there is no event `sideways` in the schedule"),
    ("$C pause sideways", 2, "soloist: there is no event `sideways` in the schedule"),
    ("$C resume sideways", 2, "soloist: there is no event `sideways` in the schedule"),
    ("$C paused sideways", 2, "soloist: there is no event `sideways` in the schedule"),
    // The store.
    ("$S check --store file:/proc/locks", 3, "soloist: could not open the directory /proc/locks: "),
    ("$S locks", 3, "/store: check the path; `soloist run` makes the directory when it is first used"),
    ("$S locks --store file:/no/store", 3, "soloist: there is no store in /no/store: check the path; "),
    ("$S log j", 3, "soloist: there is no store in /"),
    ("$S unlock j", 3, "soloist: there is no store in /"),
    ("$S unlock --force j", 3, "soloist: there is no store in /"),
    ("$S pause", 3, "soloist: there is no store in /"),
    ("$S paused", 3, "soloist: there is no store in /"),
    ("$S resume", 3, "soloist: there is no store in /"),
    ("$S check", 3, "soloist: there is no store in /"),
    ("$S locks --store $nowhere", 3, "soloist: could not list the leases in redis://127.0.0.1:1"),
    ("$S log --store $nowhere j", 3, "Connection refused"),
    ("$S unlock --store $nowhere j", 3, "Connection refused"),
    ("$S unlock --force --store $nowhere j", 3, "Connection refused"),
    ("$S pause --store $nowhere", 3, "Connection refused"),
    ("$S resume --store $nowhere", 3, "Connection refused (os error 111); test the store with `soloist check`\n"),
    ("$S check --store $nowhere", 3, "Connection refused (os error 111)\n"),
    ("$S paused --store $nowhere", 3, "Connection refused"),
    ("SCHEDULE_STORE=$nowhere $C status", 3, "store: could not read lease/carts:remind in redis"),
    ("foreign; $S unlock j", 3, ".state"),
    ("used; full $S pause", 3, "File too large"),
    // Standard output that takes nothing.
    ("used; $S locks >/dev/full", 1, "soloist: can't write the answer: No space left on device"),
    ("$C list --json >/dev/full", 1, "soloist: can't write the answer: No space left on device"),
    ("used; $S locks >&-", 0, ""),
    ("$S sideways >&- 2>&-", 2, ""),
    ("$S locks --store consul: >&- 2>&-", 2, ""),
];

/// Tries each row in a place of its own, four at a time.
#[track_caller]
fn hold(rows: &[(&str, i32, &str)]) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let wrong = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((line, code, text)) = rows.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let place = Place::new();
                    let mut shell = place.program(Path::new("sh"), "-c");
                    shell.arg(format!("{WORDS}\n{line}")).env("S", SOLOIST).env("C", example("schedule_cli"));
                    let answer = answer(&mut shell);
                    let said = answer.printed.clone() + &answer.errors;
                    let is_said = if text.is_empty() { said.is_empty() } else { said.contains(text) };
                    if answer.code != Some(*code) || !is_said || said.contains("panicked") {
                        wrong.lock().unwrap().push(format!("{line}: not {code} and {text:?}, but {answer:?}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn soloist_run_exits_as_the_table_says() {
    hold(SOLOIST_RUN);
}

#[test]
fn each_row_of_the_guides_table_is_true() {
    let guide = include_str!("../../../docs/guide/from_flock.md");
    let (_, after) = guide.split_once("\n## Exit codes\n").expect("it has the section");
    let rows = after.lines().skip_while(|line| !line.starts_with("| --- ")).skip(1).take_while(|line| !line.is_empty());
    let cells = |row: &'static str| row.strip_prefix("| ").unwrap().split(" | ").take(2).collect::<Vec<_>>();
    let rows: Vec<Vec<&str>> = rows.map(cells).collect();
    let shown: Vec<Vec<&str>> = GUIDE.iter().map(|(code, meaning, _)| vec![*code, *meaning]).collect();
    assert_eq!(rows, shown);
    hold(&GUIDE.iter().map(|(_, _, row)| *row).collect::<Vec<_>>());
}

#[test]
fn every_other_command_exits_as_the_table_says() {
    hold(COMMANDS);
}

#[test]
fn a_command_that_only_looks_makes_no_directory() {
    let place = Place::new();
    for words in ["locks", "locks --json", "log j", "unlock j", "pause", "pause j", "paused", "resume", "check"] {
        answer(&mut place.soloist(words)).exits_with(3).says("soloist: there is no store in ");
        assert!(!place.path("store").exists(), "{words}");
    }
    succeeds(&mut place.run("", "true")).is_silent();
    assert!(place.path("store").is_dir());
    for words in ["locks", "log j", "pause", "paused", "resume", "check"] {
        succeeds(&mut place.soloist(words));
    }
}

/// Shows the problem, and below it the remedy.
#[test]
fn what_a_first_attempt_lacks_is_told_with_the_remedy() {
    let place = Place::new();
    let flock = "Write: soloist run --name NAME --store URL -- COMMAND. https://docs.rs/crate/soloist/latest/source/docs/guide/from_flock.md has the options of `flock`.\n";
    let store = "Say where leases are kept: --store file:/var/lib/locks, redis://…, postgres://… or mysql://…, or set \
                 SOLOIST_STORE as in your crontab.\n";
    for (words, is_set, code, hint) in [
        ("run /var/lock/backup true", true, 64, flock),
        ("run", true, 64, flock),
        ("run --name j -- true", false, 64, store),
        ("locks", false, 2, store),
    ] {
        let mut command = place.soloist(words);
        if !is_set {
            command.env_remove("SOLOIST_STORE");
        }
        let wrong = answer(&mut command).exits_with(code);
        assert!(wrong.printed.is_empty() && wrong.errors.starts_with("error: "), "{words}: {wrong:?}");
        assert_eq!(wrong.errors.matches(hint).count(), 1, "{words}: {wrong:?}");
        assert!(wrong.errors.contains("\n\n") && wrong.errors.ends_with(".\n"), "{words}: {wrong:?}");
    }
    for words in ["run --help", "help run", "--help"] {
        let help = succeeds(&mut place.soloist(words));
        assert!(![flock, store].iter().any(|hint| help.printed.contains(hint)), "{help:?}");
    }
}

#[test]
fn the_table_of_other_commands_has_every_exit_code() {
    let codes: BTreeSet<i32> = COMMANDS.iter().map(|(_, code, _)| *code).collect();
    assert_eq!(codes, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn a_reader_that_stops_is_no_error() {
    let place = Place::new().used();
    // The reader has gone when the program writes.
    let reads_nothing = |line: &str| {
        let line = format!("{{ sleep 0.3; {line}; echo \"code $?\" >&2; }} | true");
        succeeds(place.program(Path::new("sh"), "-c").arg(line).env("S", SOLOIST).env("C", example("schedule_cli")))
            .errors
    };
    for line in ["$S locks", "$S completions bash", "$C list --json", "$C status", "$S --help"] {
        assert_eq!(reads_nothing(line), "code 0\n", "{line}");
    }
    // The command has its own way with it, which is that of a shell.
    assert_eq!(reads_nothing("$S run --name j -- yes"), "code 141\n");
    place.is_free();
}
