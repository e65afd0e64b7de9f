#!/bin/sh
# rsh_agent.sh HOST COMMAND...: what ssh is between machines, between network namespaces: the second host.
shift
exec ip netns exec "$GALPLAN_HOSTS-b" unshare --uts sh -c "hostname galplan-b; $*"
