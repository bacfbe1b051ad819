{{/* The beginning of all names. */}}
{{- define "portcullis.name" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = ternary .Release.Name (printf "%s-portcullis" .Release.Name) (contains "portcullis" .Release.Name) -}}
{{- end -}}
{{- if gt (len $name) 38 -}}
{{- fail (printf "%s has more than 38 characters, which names of pods do not have room for: set fullnameOverride" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* The name of cluster-scoped objects. A colon is in no namespace's name: no two releases have the same. */}}
{{- define "portcullis.clusterName" -}}
{{- $name := include "portcullis.name" . -}}
{{- if eq $name .Release.Namespace -}}
{{- printf "%s-control-plane" $name -}}
{{- else -}}
{{- printf "%s:%s-control-plane" .Release.Namespace $name -}}
{{- end -}}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "portcullis.labels" -}}
app.kubernetes.io/name: portcullis
app.kubernetes.io/part-of: portcullis
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{/* Labels that select: (list . COMPONENT), and of several with this component (list . COMPONENT ENTRY), an entry of `envoys`. */}}
{{- define "portcullis.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: portcullis
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- if gt (len .) 2 }}
{{- with index . 2 }}
portcullis.dev/envoys: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Metadata of a component's object: (list . COMPONENT NAME), or (list . COMPONENT NAME ENTRY). */}}
{{- define "portcullis.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 2 | quote }}
namespace: {{ $root.Release.Namespace | quote }}
labels:
  app.kubernetes.io/component: {{ index . 1 }}
  {{- if gt (len .) 3 }}
  {{- with index . 3 }}
  portcullis.dev/envoys: {{ . | quote }}
  {{- end }}
  {{- end }}
  {{- include "portcullis.labels" $root | nindent 2 }}
{{- end -}}

{{/* Metadata of an object of the whole release: (list . NAME). */}}
{{- define "portcullis.commonMetadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 | quote }}
namespace: {{ $root.Release.Namespace | quote }}
labels:
  {{- include "portcullis.labels" $root | nindent 2 }}
{{- end -}}

{{/* The Secret with the certificate of the xDS server. */}}
{{- define "portcullis.controlPlaneSecret" -}}
{{- .Values.controlPlane.xdsSecret | default (printf "%s-control-plane-xds" (include "portcullis.name" .)) -}}
{{- end -}}
