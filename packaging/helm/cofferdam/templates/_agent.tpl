{{/* Each capability with its reason; docs/src/kubernetes/node-changes.md has the same list. */}}
{{- define "cofferdam.agentSecurity" -}}
runAsUser: 0
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
# The container's AppArmor profile would keep the agent from the node's cgroup files.
appArmorProfile:
  type: Unconfined
{{- with .Values.agent.seLinuxOptions }}
seLinuxOptions:
  {{- toYaml . | nindent 2 }}
{{- end }}
capabilities:
  drop: [ALL]
  add:
    # Load BPF programs and maps.
    - BPF
    # Attach them to tracepoints.
    - PERFMON
    # Attach XDP and tc programs to the interfaces of pods; change how these interfaces receive.
    - NET_ADMIN
    # Enter the network namespaces of pods (setns), find programs and maps by their ids.
    - SYS_ADMIN
    # Read the namespaces and maps of processes of other users below /proc.
    - SYS_PTRACE
    # Set affinity and priority of the kernel's NAPI threads.
    - SYS_NICE
    # Write cgroup files of pods with user namespaces, which another uid owns.
    - DAC_OVERRIDE
    # Give the socket to the gateway's group.
    - CHOWN
{{- end }}

{{- define "cofferdam.agentMounts" -}}
- name: configuration
  mountPath: /etc/cofferdam
  readOnly: true
- name: run
  mountPath: /run/cofferdam
- name: sys
  mountPath: /sys
- name: netns
  mountPath: /run/netns
  readOnly: true
  mountPropagation: HostToContainer
- name: runtime
  mountPath: {{ .Values.agent.runtimeFolder }}
  readOnly: true
  mountPropagation: HostToContainer
{{- if .Values.nri.enabled }}
- name: nri
  mountPath: {{ .Values.nri.folder }}
{{- end }}
{{- if .Values.agent.history.enabled }}
- name: history
  mountPath: /var/lib/cofferdam/history
{{- end }}
{{- end }}
