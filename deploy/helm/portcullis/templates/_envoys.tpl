{{/* The objects of a group of Envoys: (list . GROUP), a group of portcullis.groups. */}}
{{- define "portcullis.envoys" -}}
{{- $root := index . 0 -}}
{{- $group := index . 1 -}}
{{- $values := $group.values -}}
{{- $selector := include "portcullis.selector" (list $root $group.component $group.entry) -}}
# Without any right: a gateway asks kube-apiservers with the credentials that xDS brings.
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "portcullis.metadata" (list $root $group.component $group.name $group.entry) | nindent 2 }}
  {{- with $values.serviceAccountAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "portcullis.metadata" (list $root $group.component $group.name $group.entry) | nindent 2 }}
spec:
  {{- if not $values.autoscaling.enabled }}
  replicas: {{ $values.replicas | toJson }}
  {{- end }}
  strategy:
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
  template:
    metadata:
      {{- include "portcullis.podMetadata" (list $root $selector $values) | nindent 6 }}
    spec:
      serviceAccountName: {{ $group.name | quote }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds | toJson }}
      {{- include "portcullis.pod" (list $root $selector $values $group.bindsLowPorts) | nindent 6 }}
      containers:
      - name: gateway
        {{- include "portcullis.container" (list $root $values) | nindent 8 }}
        args:
        - agent
        {{- if $values.zones }}
        - --zone=$(ZONE)
        {{- end }}
        {{- range $group.args }}
        - {{ . | quote }}
        {{- end }}
        - --envoy=/usr/local/bin/envoy
        - --module-dir=/usr/local/lib/portcullis
        - {{ printf "--xds-address=%s-control-plane.$(POD_NAMESPACE).svc:9443" (include "portcullis.name" $root) | quote }}
        - --xds-cert=/etc/portcullis/xds/tls.crt
        - --xds-key=/etc/portcullis/xds/tls.key
        - --xds-server-ca=/etc/portcullis/xds/ca.crt
        # A name that the certificate of all gateways covers: *.{{ $group.nodeDomain }}.<namespace>.
        - --node-id=$(POD_NAME).{{ $group.nodeDomain }}.$(POD_NAMESPACE)
        - --http-address=0.0.0.0:9081
        - --shutdown-delay=10s
        - --drain-timeout=30s
        {{- with $values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        - --
        - --concurrency
        - {{ $values.concurrency | toJson | quote }}
        {{- with $values.extraEnvoyArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        {{- range $variable := $group.env }}
        - name: {{ $variable.name }}
          valueFrom: {fieldRef: {fieldPath: {{ $variable.fieldPath | quote }}}}
        {{- end }}
        {{- if $values.zones }}
        - name: ZONE
          valueFrom: {fieldRef: {fieldPath: "metadata.labels['topology.kubernetes.io/zone']"}}
        {{- end }}
        {{- with $values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        ports:
        {{- range $group.ports }}
        - {name: {{ .name }}, containerPort: {{ .containerPort | toJson }}}
        {{- end }}
        - {name: http, containerPort: 9081}
        readinessProbe:
          httpGet: {path: /readyz, port: http}
          periodSeconds: 2
          failureThreshold: 1
        volumeMounts:
        - {name: xds, mountPath: /etc/portcullis/xds, readOnly: true}
      volumes:
      - name: xds
        secret: {secretName: {{ $group.secret | quote }}, defaultMode: 288}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "portcullis.metadata" (list $root $group.component $group.name $group.entry) | nindent 2 }}
  {{- with $values.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ $values.service.type | quote }}
  {{- if ne $values.service.type "ClusterIP" }}
  # Clients' own addresses, and only nodes with a gateway that is ready.
  externalTrafficPolicy: {{ $values.service.externalTrafficPolicy | default "Local" | quote }}
  {{- end }}
  {{- if eq $values.service.type "LoadBalancer" }}
  {{- with $values.service.loadBalancerClass }}
  loadBalancerClass: {{ . | quote }}
  {{- end }}
  {{- with $values.service.loadBalancerSourceRanges }}
  loadBalancerSourceRanges:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  selector:
    {{- $selector | nindent 4 }}
  ports:
  {{- range $group.ports }}
  - {name: {{ .name }}, port: {{ .port | toJson }}, targetPort: {{ .name }}}
  {{- end }}
---
# For Prometheus; apart, so that no load balancer shows it to clients.
apiVersion: v1
kind: Service
metadata:
  {{- include "portcullis.metadata" (list $root $group.metricsComponent $group.metricsName $group.entry) | nindent 2 }}
spec:
  clusterIP: None
  # A gateway that drains is still to be seen.
  publishNotReadyAddresses: true
  selector:
    {{- $selector | nindent 4 }}
  ports:
  - {name: http, port: 9081, targetPort: http}
{{- if $values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "portcullis.metadata" (list $root $group.component $group.name $group.entry) | nindent 2 }}
spec:
  maxUnavailable: {{ $values.podDisruptionBudget.maxUnavailable | toJson }}
  # A pod without a listener is never ready, and would block the drain of its node for ever. It serves no client.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
{{- end }}
{{- if $values.autoscaling.enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "portcullis.metadata" (list $root $group.component $group.name $group.entry) | nindent 2 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ $group.name | quote }}}
  minReplicas: {{ $values.autoscaling.minReplicas | toJson }}
  maxReplicas: {{ $values.autoscaling.maxReplicas | toJson }}
  metrics:
  - type: Resource
    resource:
      name: cpu
      target: {type: Utilization, averageUtilization: {{ $values.autoscaling.targetCPUUtilization | toJson }}}
  {{- with $values.autoscaling.behavior }}
  behavior:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}
