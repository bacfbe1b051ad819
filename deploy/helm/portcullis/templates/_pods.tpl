{{/* An image: (list . VALUES-OF-THE-COMPONENT). */}}
{{- define "portcullis.image" -}}
{{- $root := index . 0 -}}
{{- $image := (index . 1).image -}}
{{- $name := printf "%s/%s" $root.Values.image.registry $image.repository -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest | quote -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default $root.Chart.AppVersion) | quote -}}
{{- end -}}
{{- end -}}

{{/* Labels and annotations of pods: (list . SELECTOR VALUES). */}}
{{- define "portcullis.podMetadata" -}}
{{- $values := index . 2 -}}
labels:
  {{- with $values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- index . 1 | nindent 2 }}
{{- with $values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The part of a pod that both components have: (list . SELECTOR VALUES), or (list . SELECTOR VALUES BINDS-LOW-PORTS). */}}
{{- define "portcullis.pod" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
{{- $selector := index . 1 -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
  {{- if gt (len .) 3 }}
  {{- if index . 3 }}
  # Ports below 1024 without a capability. A safe sysctl, of the pod's own network: `restricted` admits it.
  sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: "0"}]
  {{- end }}
  {{- end }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $values.topologySpread.keys }}
topologySpreadConstraints:
{{- range $values.topologySpread.keys }}
- maxSkew: 1
  topologyKey: {{ . | quote }}
  whenUnsatisfiable: {{ $values.topologySpread.whenUnsatisfiable | quote }}
  labelSelector:
    matchLabels:
      {{- $selector | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}
{{- end -}}

{{/* The part of a container that both components have: (list . VALUES). */}}
{{- define "portcullis.container" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
image: {{ include "portcullis.image" . }}
{{- with $root.Values.image.pullPolicy }}
imagePullPolicy: {{ . | quote }}
{{- end }}
command: [portcullis]
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  failureThreshold: 3
{{- with $values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* Egress to the kube-apiservers: an object with `apiservers` and `apiserverPorts`. */}}
{{- define "portcullis.egress" -}}
- to:
  {{- range .apiservers }}
  - ipBlock:
      {{- toYaml . | nindent 6 }}
  {{- end }}
  ports:
  {{- range .apiserverPorts }}
  - {port: {{ . | toJson }}}
  {{- end }}
{{- end -}}
