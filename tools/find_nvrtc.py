"""find_nvrtc -- prints the path of NVRTC in the packages that this Python sees; nothing when there is none."""

import glob
import os
import sys

for folder in sys.path:
    found = sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libnvrtc.so.*")))
    if found:
        print(found[-1])
        break
