#!/usr/bin/env bash
# Writes an ACL file with passwords, as hashes, to standard output:
#
#   WORKER_PASSWORD=… OPERATOR_PASSWORD=… deploy/redis/make-acl.sh deploy/redis/lock-master.acl >users.acl
#
# Each user in the file takes its password from <USER>_PASSWORD. Comments are left out: Redis allows none in an ACL file.
set -euo pipefail

template=${1:?Usage: $0 file.acl}
text=$(grep -v '^#' "$template")
for user in $(grep -o '#[A-Z]*-PASSWORD-SHA256' <<<"$text" | tr -d '#' | sed 's/-PASSWORD-SHA256//'); do
  variable=${user}_PASSWORD
  password=${!variable:-}
  if [ -z "$password" ]; then
    echo "$variable is not set: give the password of the user in the environment" >&2
    exit 1
  fi
  hash=$(printf %s "$password" | sha256sum | cut -d ' ' -f 1)
  text=${text//"$user-PASSWORD-SHA256"/$hash}
done
printf '%s\n' "$text"
