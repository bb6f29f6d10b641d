# Ends a command whose scheduler was killed.
#
# $1: for how many seconds the command may go on after TERM. $2: the process id of the scheduler.
# Standard input: the id of its process group, in a line; another line, when it was told to stop. The end of the input
# says that the scheduler has gone: one that lives kills this when nothing is left of the group. On Linux, URG says so, too:
# a child that the scheduler forked may keep the input open.

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
# A scheduler that was killed before this could hear its signal has another process in its place as the parent, or none.
{ [ "$PPID" -eq "$2" ] && kill -s 0 "$2" 2>/dev/null; } || end "$1"
read -r group || exit 0
while read -r _; do told=yes; done
end "$1"
