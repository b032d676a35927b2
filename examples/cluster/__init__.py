"""Training over several instances, hosts and pods: started by poprun, Slurm or Kubernetes."""
