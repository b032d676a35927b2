#!/usr/bin/env bash
# One stage of BERT: phase1, phase2, SQuAD or validation. See --help.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: run_stage.sh DEVICE STAGE LOAD SAVE [ARGUMENT ...]

  DEVICE    ipu, or cpu: Paddle's own executor
  STAGE     phase1      pretraining with short sequences
            phase2      pretraining with long ones
            SQuAD       fine-tuning
            validation  exact match and F1
  LOAD      path and prefix of the .pdparams to start from; _ for none
  SAVE      path and prefix of the .pdparams to write; _ for none: out/bert_stage/STAGE.
            Checkpoints, log and plot go to SAVE.run; in validation the predictions do
  ARGUMENT  further arguments of run_pretrain.py or run_squad.py, such as --resume

environment:
  BERT_PRESET       pod4 (default), pod16: BERT-Base as published; small: minutes on two cores;
                    smoke: seconds
  BERT_DATA         folder of the data (default: data/bert), where these are looked for:
  PHASE1_INPUT        folder of hdf5 or tfrecord files of phase 1    $BERT_DATA/phase1
  PHASE2_INPUT        folder of those of phase 2                     $BERT_DATA/phase2
  SQUAD_TRAIN         JSON file to fine-tune on                      $BERT_DATA/squad/train-v1.1.json
  SQUAD_DEV           JSON file to validate on                       $BERT_DATA/squad/dev-v1.1.json
  BERT_VOCABULARY     vocabulary of the pretraining                  $BERT_DATA/phase1/vocab.txt
  PYTHON            the Python that has Paddle (default: python3)

exit codes:
  0 done; 1 a file could not be written, or training diverged; 2 wrong arguments, missing or damaged
  input; 130 and 143 interrupted by SIGINT and SIGTERM

the journey:
  run_stage.sh ipu phase1     _         model_128
  run_stage.sh ipu phase2     model_128 model_384
  run_stage.sh ipu SQuAD      model_384 fine_tuned
  run_stage.sh ipu validation fine_tuned _
TEXT
}

wrong() {
  echo "run_stage.sh: $1" >&2
  usage >&2
  exit 2
}

for argument in "$@"; do
  if [[ $argument == --help || $argument == -h ]]; then
    usage
    exit 0
  fi
done
[[ $# -ge 4 ]] || wrong "expected DEVICE STAGE LOAD SAVE, got $# arguments"
device=$1 stage=$2 load=$3 save=$4
shift 4

data=${BERT_DATA:-data/bert}
case $device in
  ipu | cpu) ;;
  *) wrong "DEVICE: expected ipu or cpu, got '$device'" ;;
esac
case $stage in
  phase1) script=run_pretrain name=phase1 input=${PHASE1_INPUT:-$data/phase1} ;;
  phase2) script=run_pretrain name=phase2 input=${PHASE2_INPUT:-$data/phase2} ;;
  SQuAD) script=run_squad name=squad input=${SQUAD_TRAIN:-$data/squad/train-v1.1.json} ;;
  validation) script=run_squad name=validation input=${SQUAD_DEV:-$data/squad/dev-v1.1.json} ;;
  *) wrong "STAGE: expected phase1, phase2, SQuAD or validation, got '$stage'" ;;
esac
preset=${BERT_PRESET:-pod4}
case $preset in
  pod4 | pod16 | small | smoke) ;;
  *) wrong "BERT_PRESET: expected pod4, pod16, small or smoke, got '$preset'" ;;
esac
[[ -n $load && -n $save ]] || wrong "LOAD and SAVE: expected a prefix, or _ for none"
[[ $stage != validation || $load != _ ]] || wrong "LOAD: validation needs the fine-tuned prefix"
[[ $save != _ ]] || save=out/bert_stage/$stage

arguments=(--device "$device" --preset "$preset-$name" --input_files "$input"
  --output_dir "${save%.pdparams}.run" --save_path "$save")
[[ $load == _ ]] || arguments+=(--enable_load_params True --load_params_path "$load")
[[ $script != run_squad ]] || arguments+=(--vocab_file "${BERT_VOCABULARY:-$data/phase1/vocab.txt}")

# The repository's root, so that the examples are found from any working directory.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
export RDMAV_FORK_SAFE=1
exec "${PYTHON:-python3}" -m "examples.bert.$script" "${arguments[@]}" "$@"
