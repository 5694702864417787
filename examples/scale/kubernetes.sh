#!/bin/sh
# helix serve --scale 1-4 --scale-command examples/scale/kubernetes.sh
#
# Workers as pods, with kubectl. The worker's key (helix key new --worker 'helix-*') is in the secret helix-worker-key.
set -eu
verb=$1
name=$2
case "$verb" in
start)
    kubectl apply -f - <<END
apiVersion: v1
kind: Pod
metadata:
  name: $name
  labels: {app: helix-worker}
spec:
  restartPolicy: OnFailure
  containers:
    - name: worker
      image: ${HELIX_IMAGE:-helix:latest}
      args: [worker, --join, "$HELIX_JOIN", --name, "$name", --key, /key/worker.key]
      resources:
        limits: {cpu: "${HELIX_CPU:-8}", memory: "${HELIX_MEMORY:-32Gi}"}
      volumeMounts: [{name: key, mountPath: /key, readOnly: true}]
  volumes:
    - name: key
      secret: {secretName: helix-worker-key, defaultMode: 256}  # 0400
END
    ;;
stop)
    kubectl delete pod "$name" --wait=false
    ;;
*)
    echo "usage: $0 start|stop NAME" >&2
    exit 2
    ;;
esac
