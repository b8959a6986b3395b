{{- define "divvy.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "divvy.labels" -}}
app.kubernetes.io/name: divvy
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* What a pod is selected by: never changes. */}}
{{- define "divvy.selector" -}}
app.kubernetes.io/name: divvy
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* "true" with slots, empty with claims. */}}
{{- define "divvy.slots" -}}
{{- if eq .Values.way "slots" }}true{{ end }}
{{- end }}

{{- define "divvy.simulated" -}}
{{- if or .Values.simulatedGpus.gpus .Values.simulatedGpus.hostFile }}true{{ end }}
{{- end }}
