cd /work/faults3
for i in 1 2 3; do
for locks in etcd zookeeper; do
 npm run -s soak -- --minutes 0.3 --seed $i --locks $locks > .scratch/soak-$locks-$i.log 2>&1; echo "soak $locks $i rc=$? load $(cut -d' ' -f1 /proc/loadavg)" >> .scratch/soaks.txt
 npm run -s soak -- --histories 60 --seed $i --locks $locks > .scratch/hist-$locks-$i.log 2>&1; echo "hist $locks $i rc=$? load $(cut -d' ' -f1 /proc/loadavg)" >> .scratch/soaks.txt
done; done
echo end >> .scratch/soaks.txt
