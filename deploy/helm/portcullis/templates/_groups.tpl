{{/* Groups of Envoys, as JSON: those of the release, and those of each entry of `envoys`. */}}
{{- define "portcullis.groups" -}}
{{- $root := . -}}
{{- $groups := list -}}
{{- if include "portcullis.hasOwnGroup" . -}}
{{- $groups = append $groups (include "portcullis.ownGroup" . | fromJson) -}}
{{- end -}}
{{- range .Values.envoys -}}
{{- $groups = append $groups (include "portcullis.group" (list $root .) | fromJson) -}}
{{- end -}}
{{- $names := dict -}}
{{- $secrets := dict (include "portcullis.controlPlaneSecret" .) true (printf "%s-xds-ca" (include "portcullis.name" .)) true -}}
{{- range list .Values.settingsSecret .Values.controlPlane.console.tlsSecret -}}
{{- if . -}}
{{- $_ := set $secrets . true -}}
{{- end -}}
{{- end -}}
{{- range $groups -}}
{{- if hasKey $names .name -}}
{{- fail (printf "envoys: the name %s is there twice" .entry) -}}
{{- end -}}
{{- if and .entry (hasKey $secrets .secret) -}}
{{- fail (printf "envoys: %s has the Secret %s of others: its certificate names these Envoys alone" .entry .secret) -}}
{{- end -}}
{{- $_ := set $names .name true -}}
{{- $_ := set $secrets .secret true -}}
{{- end -}}
{{- toJson $groups -}}
{{- end -}}

{{/* Whether there are Envoys of no Instance and no Gateway: "true" or nothing. Values of a release before (`--reuse-values`) lack the field. */}}
{{- define "portcullis.hasOwnGroup" -}}
{{- if ne (toString .Values.gateway.enabled) "false" -}}
true
{{- end -}}
{{- end -}}

{{/* The Envoys of no Instance and no Gateway. */}}
{{- define "portcullis.ownGroup" -}}
{{- $prefix := include "portcullis.name" . -}}
{{- $values := .Values.gateway -}}
{{- dict
  "entry" ""
  "name" (printf "%s-gateway" $prefix)
  "component" "gateway"
  "metricsName" (printf "%s-gateway-metrics" $prefix)
  "metricsComponent" "gateway-metrics"
  "certificate" (printf "%s-gateway-xds" $prefix)
  "secret" ($values.xdsSecret | default (printf "%s-gateway-xds" $prefix))
  "dnsNames" (list (printf "*.gateway.%s" .Release.Namespace))
  "nodeDomain" "gateway"
  "args" (list)
  "env" (list)
  "ports" (include "portcullis.listenerPorts" (list .Values.settings.listener $values.service.port) | fromJsonArray)
  "bindsLowPorts" false
  "egress" (pick .Values.networkPolicies "apiservers" "apiserverPorts")
  "values" $values
| toJson -}}
{{- end -}}

{{/* The Envoys of an Instance or a Gateway: (list . ENTRY), an entry of `envoys`. */}}
{{- define "portcullis.group" -}}
{{- $root := index . 0 -}}
{{- $entry := index . 1 -}}
{{- $prefix := include "portcullis.name" $root -}}
{{- $name := printf "%s-envoys-%s" $prefix $entry.name -}}
{{- if gt (len $name) 52 -}}
{{- fail (printf "envoys: %s has more than 52 characters, which names of pods do not have room for: choose a shorter name" $name) -}}
{{- end -}}
{{- $values := include "portcullis.laidOver" (list (include "portcullis.inherited" . | fromJson) $entry) | fromJson -}}
{{- $member := include (ternary "portcullis.ofGateway" "portcullis.ofInstance" (hasKey $entry "gateway")) (list $root $entry $values) | fromJson -}}
{{- $low := false -}}
{{- range $member.ports -}}
{{- if lt (int .containerPort) 1024 -}}
{{- $low = true -}}
{{- end -}}
{{- end -}}
{{- dict
  "entry" $entry.name
  "name" $name
  "component" "envoys"
  "metricsName" (printf "%s-metrics-%s" $prefix $entry.name)
  "metricsComponent" "envoys-metrics"
  "xdsPolicy" (printf "%s-xds-%s" $prefix $entry.name)
  "certificate" (printf "%s-envoys-xds-%s" $prefix $entry.name)
  "secret" ($entry.xdsSecret | default (printf "%s-envoys-xds-%s" $prefix $entry.name))
  "dnsNames" (list (printf "*.%s.envoys.%s" $entry.name $root.Release.Namespace) $member.dnsName)
  "nodeDomain" "$(ENVOYS).envoys"
  "args" $member.args
  "env" (prepend $member.env (dict "name" "ENVOYS" "fieldPath" "metadata.labels['portcullis.dev/envoys']"))
  "ports" $member.ports
  "bindsLowPorts" $low
  "egress" (dict
    "apiservers" ($entry.apiservers | default $root.Values.networkPolicies.apiservers)
    "apiserverPorts" ($entry.apiserverPorts | default $root.Values.networkPolicies.apiserverPorts))
  "values" $values
| toJson -}}
{{- end -}}

{{/*
Values of `gateway` that an entry has unless it says otherwise, as JSON: (list . ENTRY). Not those that name or empower the Envoys of no
group: their Secret, whose certificate does not name these, their ServiceAccount's rights, and the address and reach of their Service. The
digest of an image counts before the tag, so that a tag of the entry's own takes it away.
*/}}
{{- define "portcullis.inherited" -}}
{{- $entry := index . 1 -}}
{{- $all := omit (index . 0).Values.gateway "enabled" "xdsSecret" "serviceAccountAnnotations" -}}
{{- $service := omit ($all.service | default dict) "annotations" "loadBalancerClass" "loadBalancerSourceRanges" -}}
{{- $_ := set $all "service" (set $service "type" "ClusterIP") -}}
{{- if hasKey ($entry.image | default dict) "tag" -}}
{{- $_ := set $all "image" (omit $all.image "digest") -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* The fields of a group that is an Instance's: (list . ENTRY VALUES). */}}
{{- define "portcullis.ofInstance" -}}
{{- $root := index . 0 -}}
{{- $entry := index . 1 -}}
{{- if not $root.Values.instances.enabled -}}
{{- fail (printf "envoys: %s is of an Instance, which needs instances.enabled" $entry.name) -}}
{{- end -}}
{{- $listener := $entry.listener | default $root.Values.settings.listener -}}
{{- with $listener.tunnel -}}
{{- if eq (int .port) (int $listener.port) -}}
{{- fail (printf "envoys: %s has the port %d twice" $entry.name (int .port)) -}}
{{- end -}}
{{- end -}}
{{- dict
  "dnsName" (printf "%s.instance.portcullis.dev" $entry.instance)
  "args" (list (printf "--instance=%s" $entry.instance))
  "env" (list)
  "ports" (include "portcullis.listenerPorts" (list $listener (index . 2).service.port) | fromJsonArray)
| toJson -}}
{{- end -}}

{{/* The fields of a group that is a Gateway's: (list . ENTRY VALUES). */}}
{{- define "portcullis.ofGateway" -}}
{{- $root := index . 0 -}}
{{- $entry := index . 1 -}}
{{- if not $root.Values.gatewayAPI.enabled -}}
{{- fail (printf "envoys: %s is of a Gateway, which needs gatewayAPI.enabled" $entry.name) -}}
{{- end -}}
{{- $place := splitList "/" $entry.gateway -}}
{{- $args := list (printf "--gateway=%s" $entry.gateway) -}}
{{- $env := list -}}
{{- range $entry.addresses -}}
{{- $args = append $args (printf "--gateway-address=%s" .) -}}
{{- else -}}
{{- $args = append $args "--gateway-address=$(POD_IPS)" -}}
{{- $env = append $env (dict "name" "POD_IPS" "fieldPath" "status.podIPs") -}}
{{- end -}}
{{- $ports := list -}}
{{- range $entry.ports -}}
{{- $ports = append $ports (dict "name" (printf "port-%d" (int .)) "port" . "containerPort" .) -}}
{{- end -}}
{{- dict
  "dnsName" (printf "%s.%s.gateway.portcullis.dev" (last $place) (first $place))
  "args" $args
  "env" $env
  "ports" $ports
| toJson -}}
{{- end -}}

{{/* The ports of `listener` in GatewaySettings: (list LISTENER PORT-OF-THE-SERVICE). */}}
{{- define "portcullis.listenerPorts" -}}
{{- $listener := index . 0 -}}
{{- $ports := list (dict "name" "https" "port" (index . 1) "containerPort" $listener.port) -}}
{{- with $listener.tunnel -}}
{{- $ports = append $ports (dict "name" "tunnel" "port" .port "containerPort" .port) -}}
{{- end -}}
{{- toJson $ports -}}
{{- end -}}

{{/* Values laid over others, as JSON: (list UNDER OVER). Helm's own merge, without the null that removes, which no list takes. */}}
{{- define "portcullis.laidOver" -}}
{{- $all := deepCopy (index . 0) -}}
{{- range $key, $value := index . 1 -}}
{{- $under := get $all $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $under) -}}
{{- $value = include "portcullis.laidOver" (list $under $value) | fromJson -}}
{{- end -}}
{{- $_ := set $all $key $value -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}
