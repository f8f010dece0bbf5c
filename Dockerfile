# The book on a GPU:
#   docker build -t same-loss .
#   docker run --gpus all -v same-loss:/book/artifacts same-loss chapters/04_flatness.py -p preset gpu-hour
# PyTorch is the image's own; constraints.txt has another.
FROM pytorch/pytorch:2.11.0-cuda13.0-cudnn9-runtime

WORKDIR /book
COPY pyproject.toml README.md LICENSE _config.yml _toc.yml ./
COPY lib lib
COPY chapters chapters
COPY results results
COPY benchmarks benchmarks
COPY tests tests
RUN python -c "import torch; print(f'torch=={torch.__version__}')" > constraints.txt \
    && python -m pip install --no-cache-dir -c constraints.txt -e .

ENV SAMELOSS_HOME=/book
ENTRYPOINT ["python", "-m", "sameloss.book.run"]
CMD ["chapters/04_flatness.py", "-p", "preset", "gpu-hour"]
