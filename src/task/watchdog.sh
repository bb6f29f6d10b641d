# Ends a command whose scheduler was killed.
#
# $1: the grace in seconds, the time from TERM to KILL. $2: the process id of the scheduler.
# Standard input: the first line is the id of the command's process group. A second line means that the group was
# already asked to stop. The end of the input means that the scheduler has ended: a living scheduler closes the input
# only after it has killed this script. On Linux, the signal URG also means that the scheduler has ended. This signal is
# needed because a child that the scheduler forked may keep the input open.

# The scheduler may have a PATH without `sleep`.
PATH=$PATH:/usr/bin:/bin
end() {
  trap '' URG
  [ -n "$group" ] || read -r group || exit 0
  if [ -z "$told" ]; then
    kill -s TERM -- "-$group" 2>/dev/null || exit 0
    sleep "$1" &
    while kill -s 0 "$!" 2>/dev/null && kill -s 0 -- "-$group" 2>/dev/null; do sleep 0.1 || sleep 1; done
    kill -s KILL "$!" 2>/dev/null
  fi
  kill -s KILL -- "-$group" 2>/dev/null
  exit 0
}
group= told=
trap 'end "$1"' URG
trap '' TERM INT HUP QUIT
# The scheduler may have been killed before URG was trapped. Then the parent of this script is another process.
{ [ "$PPID" -eq "$2" ] && kill -s 0 "$2" 2>/dev/null; } || end "$1"
read -r group || exit 0
while read -r _; do told=yes; done
end "$1"
