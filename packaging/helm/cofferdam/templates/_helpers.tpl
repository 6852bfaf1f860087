{{- define "cofferdam.name" -}}
{{- if or (eq .Release.Name "cofferdam") .Values.nameOverride }}
{{- .Values.nameOverride | default "cofferdam" | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-cofferdam" .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "cofferdam.selector" -}}
app.kubernetes.io/name: cofferdam
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end }}

{{- define "cofferdam.eventsSelector" -}}
app.kubernetes.io/name: cofferdam
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: events
{{- end }}

{{- define "cofferdam.noRights" -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- end }}

{{- define "cofferdam.labels" -}}
app.kubernetes.io/name: cofferdam
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "cofferdam.image" -}}
{{- $repository := .Values.image.repository -}}
{{- if not $repository -}}
{{- fail "image.repository is required: there is no public image. Push the image of `make image` to a registry of yours, then --set image.repository=REGISTRY/cofferdam" -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "cofferdam.secret" -}}
{{ .Values.gateway.existingSecret | default (printf "%s-gateway" (include "cofferdam.name" .)) }}
{{- end }}

{{/* A group of the node that nobody has: the gateway's, which may read the agent's socket. */}}
{{- define "cofferdam.gatewayGroup" -}}64242{{- end }}

{{/* One TOML value. Helm reads every number of the values as a floating-point one. */}}
{{- define "cofferdam.toml.value" -}}
{{- if and (kindIs "float64" .) (eq (float64 (int64 .)) .) -}}
{{ int64 . }}
{{- else -}}
{{ toJson . }}
{{- end }}
{{- end }}

{{/* key = value, sorted by key. */}}
{{- define "cofferdam.toml.table" -}}
{{- range $key, $value := . }}
{{ $key }} = {{ include "cofferdam.toml.value" $value }}
{{- end }}
{{- end }}

{{- define "cofferdam.toml" -}}
{{- range .Values.agent.rules }}
[[rule]]
{{- include "cofferdam.toml.table" . }}
{{ end }}
{{- $sections := deepCopy .Values.agent.settings }}
{{- if .Values.gateway.enabled }}
{{- $_ := set $sections "socket" (dict "group" (include "cofferdam.gatewayGroup" .)) }}
{{- end }}
{{- with .Values.agent.history }}
{{- $_ := set $sections "history" (ternary (dict "path" "/var/lib/cofferdam/history/ledger" "limit" .limit) (dict "path" "off") .enabled) }}
{{- end }}
{{- if .Values.nri.enabled }}
{{- $nri := dict "socket" (printf "%s/nri.sock" .Values.nri.folder) }}
{{- with .Values.annotations.namespaces }}
{{- $_ := set $nri "may_ask" . }}
{{- end }}
{{- $_ := set $sections "nri" $nri }}
{{- end }}
{{- range $name, $keys := $sections }}
[{{ $name }}]
{{- include "cofferdam.toml.table" $keys }}
{{ end }}
{{- end }}

{{/* A list of names of namespaces with * as one regular expression. */}}
{{- define "cofferdam.namespaces" -}}
^({{ range $i, $name := . }}{{ if $i }}|{{ end }}{{ $name | replace "*" ".*" }}{{ end }})$
{{- end }}
