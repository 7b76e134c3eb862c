cd /work/faults3
seed=$1; n=$2
nice -n $n npm run -s soak -- --minutes 0.3 --seed $seed --locks etcd > .scratch/one-$seed.log 2>&1 & p=$!
node .scratch/mon.mjs $p > .scratch/mon-$seed.log 2>&1
wait $p; echo "one $seed nice $n rc=$? load $(cut -d' ' -f1 /proc/loadavg)" >> .scratch/soaks.txt
