{{- /* Made from deploy/ and apps/guards.ts by `node scripts/manifests.ts --write`. Change it there. */}}
{{- define "rampart.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- /* Numbers of values are floating: without this, 2000000 would be written as 2e+06. */}}
{{- define "rampart.text" -}}
{{ if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end -}}
