#!/usr/bin/env bash
# A certificate authority, a server's certificate and a client's, for trying TLS. In production take them from your own authority.
#
#   deploy/redis/make-certificates.sh tls lock-1 lock-2 lock-3 lock-4 lock-5
#
# The names after the directory are those under which clients reach the servers; an address is given as IP:127.0.0.1.
set -euo pipefail

directory=${1:?Usage: $0 directory name...}
shift
[ $# -gt 0 ] || { echo 'Give at least one name under which clients reach the server' >&2; exit 1; }
mkdir -p "$directory"
cd "$directory"
umask 077

names=()
for name in "$@"; do
  case $name in
    IP:*) names+=("$name") ;;
    *) names+=("DNS:$name") ;;
  esac
done
subject_alt_name=$(IFS=,; echo "${names[*]}")

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

new_key ca.key
openssl req -x509 -new -key ca.key -sha256 -days 365 -subj '/CN=bullmq-redlock test authority' -out ca.crt

# Name of the files, and the extensions of the certificate.
sign() {
  new_key "$1.key"
  openssl req -new -key "$1.key" -subj "/CN=$1" |
    openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -sha256 -days 365 \
      -extfile <(printf '%s\n' "$2") -out "$1.crt" 2>/dev/null
}
sign server $'extendedKeyUsage=serverAuth\n'"subjectAltName=$subject_alt_name"
sign client 'extendedKeyUsage=clientAuth'
